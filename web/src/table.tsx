// The table of steps: sortable, filtered, with figures that obey the zoom; and what is known of the
// one that is chosen.

import { useMemo, useState } from "preact/hooks";
import type { Range } from "./chart";
import { type RowFigures, type Run, figuresIn, figuresOf, slotsIn } from "./data";
import { bytes, clock, count, percent, rate, time } from "./format";

const COLUMNS: [keyof RowFigures, string][] = [
  ["count", "Requests"], ["rate", "Per second"], ["failed", "Failed"], ["p50", "p50"], ["p90", "p90"],
  ["p95", "p95"], ["p99", "p99"], ["p999", "p99.9"], ["max", "Max"],
];

interface Props { run: Run; range: Range; chosen: string | null; choose: (key: string | null) => void }

export function save(name: string, text: string | Uint8Array, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text as BlobPart], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A cell that no spreadsheet takes for a formula. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replace(/"/g, '""')}"`;
}

export function nameOf(run: Run): string {
  return (run.summary.plan || "run").replace(/[^\w.-]+/g, "-").slice(0, 80);
}

/** `report`: the page itself as a file, where it is not one. */
export function Downloads({ run, record, report }: { run: Run; record: Uint8Array; report?: string }) {
  const name = nameOf(run);
  return (
    <>
      {report !== undefined && <button type="button" class="main" onClick={() => save(`${name}.html`, report, "text/html")}>Save the report</button>}
      <button type="button" onClick={() => save(`${name}.volley`, record, "application/gzip")}>Record</button>
      <button type="button" onClick={() => save(`${name}.summary.json`, JSON.stringify(run.summary, null, 2), "application/json")}>Summary</button>
    </>
  );
}

export function Steps({ run, range, chosen, choose }: Props) {
  const [sort, setSort] = useState<[keyof RowFigures | "plan", boolean]>(["plan", false]);
  const [filter, setFilter] = useState("");
  const slots = slotsIn(run.history, range);
  const figures = useMemo(() => {
    const all = run.history.rows.map((row) => (range ? figuresIn(run.history, row, slots) : figuresOf(run, row)));
    const wanted = all.filter((one) => one.key.toLowerCase().includes(filter.toLowerCase()) && (one.count > 0 || !range));
    const [by, up] = sort;
    if (by === "plan") return grouped(wanted);
    const value = (one: RowFigures) => Number(one[by as "count"] ?? -1);
    return wanted.sort((a, b) => (up ? value(a) - value(b) : value(b) - value(a)));
  }, [run, range?.[0], range?.[1], filter, sort]);
  const csv = () => {
    const head = ["step", ...COLUMNS.map(([key]) => key)].join(",");
    const lines = figures.map((one) => [cell(one.key), ...COLUMNS.map(([key]) => String(one[key] ?? ""))].join(","));
    save("steps.csv", [head, ...lines].join("\n") + "\n", "text/csv");
  };
  const turn = (by: keyof RowFigures) => setSort(([known, up]) => (known === by ? [by, !up] : [by, false]));
  return (
    <>
      <div class="bar">
        <h2>Steps</h2>
        <span class="quiet" role="status">
          {range ? `${clock(range[0])} to ${clock(range[1])}, within ${percent(run.history.relative_error)}` : "whole run"}
        </span>
        <label class="push"><span class="quiet">Filter </span><input type="search" value={filter} size={14} onInput={(event) => setFilter(event.currentTarget.value)} /></label>
        <button type="button" onClick={csv}>CSV</button>
      </div>
      <div class="wide"><table>
        <thead><tr>
          <th aria-sort={sort[0] === "plan" ? "ascending" : "none"}><button type="button" onClick={() => setSort(["plan", false])}>Step</button></th>
          {COLUMNS.map(([key, name]) => (
            <th class="number" aria-sort={sort[0] === key ? (sort[1] ? "ascending" : "descending") : "none"}>
              <button type="button" onClick={() => turn(key)}>{name}</button>
            </th>
          ))}
        </tr></thead>
        <tbody>
          {figures.map((one) => <Line key={one.key} one={one} chosen={one.key === chosen} alone={sort[0] !== "plan"} choose={choose} />)}
        </tbody>
      </table></div>
      {chosen !== null && <Detail run={run} chosen={chosen} />}
    </>
  );
}

/** Tag values below their step. */
function grouped(all: RowFigures[]): RowFigures[] {
  const steps = [...new Set(all.map((one) => one.row.step))];
  return steps.flatMap((step) => {
    const own = all.filter((one) => one.row.step === step);
    const parts = own.filter((one) => one.row.tags !== null).sort((a, b) => b.count - a.count);
    return [...own.filter((one) => one.row.tags === null), ...parts];
  });
}

function Line({ one, chosen, alone, choose }: { one: RowFigures; chosen: boolean; alone: boolean; choose: (key: string | null) => void }) {
  const name = one.row.tags === null || alone ? one.key : one.row.tags;
  return (
    <tr class={`${one.row.tags !== null && !alone ? "part" : ""} ${chosen ? "chosen" : ""}`}>
      <th scope="row"><button type="button" aria-pressed={chosen} onClick={() => choose(chosen ? null : one.key)}>{name}</button></th>
      <td class="number">{count(one.count)}</td>
      <td class="number">{rate(one.rate)}</td>
      <td class={`number ${one.failed > 0 ? "hurt" : ""}`}>{one.failed > 0 ? `${count(one.failed)} (${percent(one.failed / Math.max(one.count, 1))})` : "0"}</td>
      {(["p50", "p90", "p95", "p99", "p999", "max"] as const).map((key) => <td class="number">{time(one[key])}</td>)}
    </tr>
  );
}

function Bars({ title, values, show }: { title: string; values: [string, number][]; show: (value: number) => string }) {
  const most = Math.max(...values.map(([, value]) => value), 1e-9);
  return (
    <div>
      <h3>{title}</h3>
      <div class="bars">
        {values.map(([name, value]) => (
          <>
            <span>{name}</span><i style={{ width: `${(value / most) * 100}%` }} /><span class="number">{show(value)}</span>
          </>
        ))}
      </div>
    </div>
  );
}

/** The request of an exchange as a command; credentials are masked in it, as in the exchange. */
export function curlOf(exchange: string): string | null {
  const sent = exchange.split("\n").filter((line) => line.startsWith(">")).map((line) => line.replace(/^> ?/, ""));
  const first = /^([A-Z]+) (\S+)/.exec(sent[0] ?? "");
  if (!first) return null;
  const quoted = (text: string) => `'${text.replace(/'/g, "'\\''")}'`;
  const blank = sent.indexOf("", 1);
  const headers = sent.slice(1, blank < 0 ? undefined : blank);
  const host = headers.find((line) => /^host:/i.test(line))?.slice(5).trim() ?? "HOST";
  const kept = headers.filter((line) => !/^(host|content-length|connection):/i.test(line));
  const body = blank < 0 ? "" : sent.slice(blank + 1).join("\n");
  const parts = ["curl", "-i", "-X", first[1], quoted(`http://${host}${first[2]}`), ...kept.flatMap((line) => ["-H", quoted(line)])];
  if (body !== "") parts.push("--data-binary", quoted(body));
  return parts.join(" ");
}

function Exchange({ at, kind, message, exchange }: { at: number; kind: string; message: string; exchange?: string }) {
  const [copied, setCopied] = useState(false);
  const command = exchange ? curlOf(exchange) : null;
  const copy = () => { void navigator.clipboard?.writeText(command ?? "").then(() => setCopied(true)); };
  return (
    <details>
      <summary>{`${kind}, about ${clock(at)}: ${message}`}</summary>
      {exchange && <pre tabIndex={0}>{exchange}</pre>}
      {command && <p><button type="button" onClick={copy}>{copied ? "Copied" : "Copy as curl"}</button> <code>{command}</code></p>}
    </details>
  );
}

function Detail({ run, chosen }: { run: Run; chosen: string }) {
  const row = run.history.rows.find((one) => (one.tags === null ? one.step : `${one.step} › ${one.tags}`) === chosen);
  const step = row && run.summary.steps[row.step];
  if (!row || !step) return null;
  const samples = run.summary.error_samples.filter((sample) => sample.step === row.step);
  return (
    <div aria-live="polite">
      <h3>{chosen}</h3>
      <p class="quiet">{`${step.method} ${step.url}`.trim()}{row.tags !== null ? " · phases, statuses and errors are those of the whole step" : ""}</p>
      <div class="detail">
        <Bars title="Phases, mean" values={Object.entries(step.phases_ms).map(([name, phase]) => [name.replace("_", " "), phase.mean])} show={time} />
        <Bars title="Status codes" values={Object.entries(step.status)} show={count} />
        {Object.keys(step.errors).length > 0 && <Bars title="Errors" values={Object.entries(step.errors)} show={count} />}
        <div><h3>Data</h3><p>{bytes(step.data_received)} received, {bytes(step.data_sent)} sent</p></div>
      </div>
      {samples.flatMap((sample) => [sample, ...(sample.later ?? [])]).map((sample) => (
        <Exchange at={sample.at_s} kind={"kind" in sample ? String(sample.kind) : "the same"} message={sample.message} exchange={sample.exchange} />
      ))}
    </div>
  );
}
