// Charts and steps of a run, over one record, whether it is whole or still grows.

import { type ComponentChildren, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart, type Line, type Mark, type Range, color } from "./chart";
import { type Flat, Histogram, type Metric, type Run, bandsOf, chosenRows, percentilesOverTime, plannedRate, sums } from "./data";
import { clock, count, percent, rate, time } from "./format";
import { Scatter } from "./small";
import { Steps } from "./table";

/** `steps`: where the table goes. */
interface Props { run: Run; downloads: ComponentChildren; steps: HTMLElement }
interface Place { range: Range; chosen: string | null }

function placeOf(hash: string): Place {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
  return { range: query.has("from") && to > from ? [from, to] : null, chosen: query.get("step") };
}

function hashOf({ range, chosen }: Place): string {
  const query = new URLSearchParams();
  if (range) {
    query.set("from", range[0].toFixed(1));
    query.set("to", range[1].toFixed(1));
  }
  if (chosen !== null) query.set("step", chosen);
  return query.toString();
}

const PALETTE = ["c1", "c2", "c3", "c4", "c5", "c6"];

/** Values as lines, in the theme's colours. */
function named(values: Record<string, number[]>, over: number[]): Line[] {
  return Object.entries(values).map(([label, counts], n) => ({
    label, color: color(PALETTE[(n + 2) % PALETTE.length]), values: counts.map((value, slot) => value / over[slot]),
  }));
}

function metricLines(metric: Metric, octave: number, over: number[]): Line[] {
  if (metric.kind === "trend") {
    const of = (percentile: number) => metric.values.map((flat) => {
      if (flat === null) return null;
      const histogram = new Histogram();
      histogram.add(flat as Flat);
      return histogram.percentiles([percentile], octave, Infinity)[0];
    });
    return [{ label: "p50", color: color("c1"), values: of(50) }, { label: "p95", color: color("c2"), values: of(95) }, { label: "p99", color: color("c3"), values: of(99) }];
  }
  if (metric.kind === "rate") {
    const share = (value: unknown) => (Array.isArray(value) && value[1] > 0 ? (value[0] as number) / (value[1] as number) : null);
    return [{ label: "share", color: color("c1"), values: metric.values.map(share) }];
  }
  const plain = metric.values.map((value, slot) => {
    if (typeof value !== "number") return null;
    return metric.kind === "counter" ? value / over[slot] : value;
  });
  return [{ label: metric.kind === "counter" ? "per second" : "value", color: color("c1"), values: plain }];
}

function Charts({ run, place, go, downloads }: Omit<Props, "steps"> & { place: Place; go: (place: Place) => void }) {
  const { history, summary } = run;
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setTheme((n) => n + 1);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  const shown = useMemo(() => {
    const line = (label: string, name: string, values: (number | null)[], more: Partial<Line> = {}): Line => ({ label, color: color(name), values, ...more });
    const rows = chosenRows(history, place.chosen);
    const slots = history.at_s.length;
    const per = (values: number[]) => values.map((value, slot) => value / Math.max(history.over_s[slot], 0.001));
    const times = percentilesOverTime(history, rows);
    const over = history.over_s.map((value) => Math.max(value, 0.001));
    const errors: Record<string, number[]> = {};
    for (const row of rows) for (const [kind, counts] of Object.entries(row.errors ?? {})) errors[kind] = counts.map((value, slot) => value + (errors[kind]?.[slot] ?? 0));
    const done = per(sums(rows, (row) => row.requests, slots));
    const at = history.at_s.map((end, slot) => end - history.over_s[slot] / 2);
    const whole = place.chosen === null;
    const plan = (requests: boolean): Line[] => {
      const values = whole ? plannedRate(run, at, requests) : null;
      return values ? [line("planned", "c2", values, { width: 1.2, dash: [6, 4] })] : [];
    };
    return {
      rows,
      at,
      done,
      times,
      rate: [line("requests", "c1", done, { fill: true }), line("failed", "c3", per(sums(rows, (row) => row.failed, slots))), ...plan(true)],
      latency: [line("p50", "c1", times.p50), line("p95", "c2", times.p95), line("p99", "c3", times.p99), line("max", "quiet", times.max, { width: 1, dash: [3, 3] })],
      overHeat: [line("p50", "text", times.p50, { width: 1.4 }), line("p99", "c3", times.p99, { width: 1.4 })],
      errors: named(errors, over),
      dropped: named(history.dropped, over),
      vus: [line("virtual users", "c4", history.vus, { fill: true })],
      iterations: [line("iterations", "c5", per(history.iterations)), ...plan(false)],
      checks: [line("failed checks", "c3", per(history.checks_failed)), line("passed checks", "c5", per(history.checks_passed))],
      busy: [line("cores busy", "c6", history.cores_busy), line("loop lag, s", "quiet", history.loop_lag_max_ms.map((ms) => ms / 1000), { width: 1 })],
      metrics: history.metrics.map((metric) => ({ metric, lines: metricLines(metric, history.buckets_per_octave, over) })),
    };
  }, [run, place.chosen, theme]);
  const marks: Mark[] = summary.timeline.filter((event) => event.at_s > 0.2).map((event) => ({ at: event.at_s, text: event.event }));
  const end = Math.max(history.at_s.at(-1) ?? 0, 0.1);
  const zoom = (range: Range) => go({ ...place, range });
  const bands = useMemo(() => bandsOf(run), [run]);
  const common = { at: shown.at, end, range: place.range, zoom, marks, bands, theme, about: `${history.at_s.length} slots over ${clock(end)}` };
  const checked = history.checks_passed.some((n) => n > 0) || history.checks_failed.some((n) => n > 0);
  const whole = place.chosen === null;
  return (
    <>
      <div class="bar">
        <span class="quiet">Drag across a chart to zoom, double click to go back. Dashed lines are events of the timeline.</span>
        <span class="push" />
        {place.range && <button type="button" onClick={() => zoom(null)}>{`Whole run (now ${clock(place.range[0])} to ${clock(place.range[1])})`}</button>}
        {!whole && <button type="button" onClick={() => go({ ...place, chosen: null })}>{`All steps (now ${place.chosen})`}</button>}
        {downloads}
      </div>
      <div class="grid2">
        <Chart {...common} title="Requests per second" lines={shown.rate} format={rate} />
        <Chart {...common} title="Latency percentiles" lines={shown.latency} format={time} log />
        <Chart {...common} title="Latency of all requests, stronger colour: more of them" lines={shown.overHeat} format={time} log height={280} heat={{ history, rows: shown.rows }} class="full" />
        {shown.errors.length > 0 && <Chart {...common} title="Errors per second, by kind" lines={shown.errors} format={rate} />}
        {shown.dropped.length > 0 && whole && <Chart {...common} title="Dropped iterations per second, by cause" lines={shown.dropped} format={rate} />}
        {whole && <Chart {...common} title="Virtual users" lines={shown.vus} format={count} />}
        {whole && <Chart {...common} title="Iterations per second" lines={shown.iterations} format={rate} />}
        {checked && whole && <Chart {...common} title="Checks per second" lines={shown.checks} format={rate} />}
        {whole && <Chart {...common} title="Load generator" lines={shown.busy} format={(value) => value.toFixed(2)} />}
        {whole && shown.metrics.map(({ metric, lines }) => (
          <Chart {...common} title={metric.name} lines={lines} format={metric.kind === "rate" ? percent : metric.time ? time : (value) => String(+value.toPrecision(4))} />
        ))}
        <Scatter rates={shown.done} times={shown.times.p99} theme={theme} />
      </div>
    </>
  );
}

export function App({ run, downloads, steps }: Props) {
  const [place, setPlace] = useState<Place>(placeOf(location.hash));
  const go = (next: Place) => {
    setPlace(next);
    const hash = hashOf(next);
    window.history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  };
  useEffect(() => {
    const changed = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    render(<Steps run={run} range={place.range} chosen={place.chosen} choose={(chosen) => go({ ...place, chosen })} />, steps);
  });
  return <Charts run={run} place={place} go={go} downloads={downloads} />;
}
