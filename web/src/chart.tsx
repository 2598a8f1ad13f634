// A chart over the run's time: one cursor for all of them, drag to zoom, double click to go back.

import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { type Band, Histogram, type History, type Row, mergedSlots, middle } from "./data";
import { clock } from "./format";

export type Range = [number, number] | null;

export interface Line { label: string; color: string; values: (number | null)[]; width?: number; fill?: boolean; dash?: number[] }
export interface Mark { at: number; text: string }

export interface ChartProps {
  title: string;
  about: string;
  at: number[];
  end: number;
  lines: Line[];
  format: (value: number) => string;
  log?: boolean;
  height?: number;
  range: Range;
  zoom: (range: Range) => void;
  marks: Mark[];
  bands: Band[];
  theme: number;
  heat?: { history: History; rows: Row[] };
  class?: string;
}

/** A colour of the theme. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

function drawMarks(u: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = color("quiet");
  ctx.fillStyle = color("quiet");
  ctx.globalAlpha = 0.7;
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.at, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.setLineDash([3, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 4 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.5);
    ctx.fill();
  }
  ctx.restore();
}

/** Stages of the load: every other one is shaded, and each has its name. */
function drawBands(u: uPlot, bands: Band[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  bands.forEach((band, number) => {
    const left = u.valToPos(band.from, "x", true);
    const right = u.valToPos(band.to, "x", true);
    if (right < bbox.left || left > bbox.left + bbox.width) return;
    ctx.fillStyle = color("band");
    if (number % 2 === 0) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    const from = Math.max(left, bbox.left) + 5 * devicePixelRatio;
    if (ctx.measureText(band.name).width < right - from) {
      ctx.fillStyle = color("quiet");
      ctx.fillText(band.name, from, bbox.top + 3 * devicePixelRatio);
    }
  });
  ctx.restore();
}

/** Requests by time and latency, under the lines: a stronger colour is more. */
function drawHeat(u: uPlot, history: History, rows: Row[]): void {
  const { ctx, bbox } = u;
  const octave = history.buckets_per_octave;
  const shades = [0, 1, 2, 3, 4, 5].map((n) => color(`s${n}`));
  // As many buckets together as a cell needs to be seen.
  const tall = Math.abs(u.valToPos(1, "y", true) - u.valToPos(2 ** (1 / octave), "y", true));
  let together = 1;
  while (tall * together < 4 * devicePixelRatio && together < octave) together *= 2;
  const columns: [number, number, Map<number, number>][] = [];
  let most = 0;
  mergedSlots(history, rows).forEach(({ histogram }, slot) => {
    const cells = new Map<number, number>();
    const over = Math.max(history.over_s[slot], 0.001);
    for (const [bucket, count] of histogram.counts) {
      const cell = Math.floor(bucket / together);
      const dense = (cells.get(cell) ?? 0) + count / over;
      cells.set(cell, dense);
      most = Math.max(most, dense);
    }
    columns.push([history.at_s[slot] - over, history.at_s[slot], cells]);
  });
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [from, to, cells] of columns) {
    const left = Math.floor(u.valToPos(from, "x", true));
    const right = Math.ceil(u.valToPos(to, "x", true));
    if (right < bbox.left || left > bbox.left + bbox.width) continue;
    for (const [cell, dense] of cells) {
      const level = Math.ceil(Math.sqrt(dense / most) * shades.length);
      const bottom = u.valToPos(1000 * 2 ** ((cell * together) / octave), "y", true);
      const top = u.valToPos(1000 * 2 ** (((cell + 1) * together) / octave), "y", true);
      ctx.fillStyle = shades[Math.min(Math.max(level, 1), shades.length) - 1];
      ctx.fillRect(left, Math.floor(top), Math.max(right - left, 1), Math.ceil(bottom) - Math.floor(top));
    }
  }
  ctx.restore();
}

/** Where the heatmap's axis begins and ends. */
function heatRange(history: History, rows: Row[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { histogram } of mergedSlots(history, rows)) {
    for (const bucket of (histogram as Histogram).counts.keys()) {
      low = Math.min(low, bucket);
      high = Math.max(high, bucket);
    }
  }
  if (low > high) return [1, 10];
  const octave = history.buckets_per_octave;
  return [middle(low - 3, octave), middle(high + 3, octave)];
}

/** `now`: what the chart shows at the moment; the chart outlives it. */
function options(now: { current: ChartProps }, width: number): uPlot.Options {
  const props = now.current;
  const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "11px system-ui, sans-serif" };
  const shown = (_: uPlot, value: number | null) => (value === null || value === undefined ? "–" : props.format(value));
  const heat = () => heatRange(now.current.heat!.history, now.current.heat!.rows);
  const scaleY: uPlot.Scale = props.log
    ? { distr: 3, log: 10, ...(props.heat ? { range: heat } : {}) }
    : { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] };
  return {
    width,
    height: props.height ?? 190,
    cursor: { sync: { key: "run", scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { time: false, range: () => now.current.range ?? [0, now.current.end] }, y: scaleY },
    axes: [
      { ...axis, values: (_, splits) => splits.map((second) => clock(second)), space: 64, incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800] },
      {
        ...axis,
        size: 62,
        ...(props.log ? { splits: (u: uPlot) => powers(u) } : {}),
        values: (_: uPlot, splits: number[]) => splits.map((value) => (value === null ? "" : props.format(value))),
      },
    ],
    series: [
      { label: "at", value: (_, at) => (at === null ? "–" : clock(at)) },
      ...props.lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: line.color,
        width: line.width ?? 1.6,
        points: { show: () => now.current.at.length === 1 },
        value: shown,
        spanGaps: true,
        ...(line.dash ? { dash: line.dash } : {}),
        ...(line.fill ? { fill: `color-mix(in srgb, ${line.color} 16%, transparent)` } : {}),
      })),
    ],
    hooks: {
      drawClear: [(u) => drawBands(u, now.current.bands)],
      drawAxes: [(u) => { if (now.current.heat) drawHeat(u, now.current.heat.history, now.current.heat.rows); }],
      draw: [(u) => drawMarks(u, now.current.marks)],
      setCursor: [(u) => { u.over.title = near(u, now.current.marks); }],
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        const from = u.posToVal(u.select.left, "x");
        const to = u.posToVal(u.select.left + u.select.width, "x");
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        now.current.zoom([Math.max(0, from), Math.min(now.current.end, to)]);
      }],
    },
  };
}

/** What happened where the pointer is. */
function near(u: uPlot, marks: Mark[]): string {
  const left = u.cursor.left ?? -1;
  if (left < 0) return "";
  const here = marks.filter((mark) => Math.abs(u.valToPos(mark.at, "x") - left) < 6);
  return here.map((mark) => `${clock(mark.at)} ${mark.text}`).join("\n");
}

/** 1, 2 and 5 of each power of ten, or only the powers. */
function powers(u: uPlot): number[] {
  const { min = 1, max = 10 } = u.scales.y as { min?: number; max?: number };
  const factors = Math.log10(max / min) > 3.3 ? [1] : [1, 2, 5];
  const out: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) {
    for (const factor of factors) if (power * factor >= min && power * factor <= max) out.push(power * factor);
  }
  return out;
}

function dataOf({ at, lines, log }: ChartProps): uPlot.AlignedData {
  const values = lines.map((line) => line.values.map((value) => (log && value !== null && value <= 0 ? null : value)));
  return [at, ...values] as uPlot.AlignedData;
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const now = useRef(props);
  now.current = props;
  const { lines, range, theme, end, marks } = props;
  // Made anew only if it has other lines or colours; new data goes into the chart that is there.
  const shape = lines.map((line) => line.label).join("\n");
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(options(now, element.clientWidth || 600), dataOf(now.current), element);
    chart.current = made;
    made.over.addEventListener("dblclick", () => now.current.zoom(null));
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height: props.height ?? 190 });
    });
    observer.observe(element);
    return () => { observer.disconnect(); made.destroy(); chart.current = null; };
  }, [shape, theme]);
  const drawn = useRef<unknown>(null);
  useEffect(() => {
    // The first data is in it already.
    if (drawn.current !== null && chart.current) chart.current.setData(dataOf(now.current));
    drawn.current = lines;
  }, [lines, end, marks.length, range?.[0], range?.[1]]);
  return (
    <div class={`chart ${props.class ?? ""}`}>
      <h3>{props.title}</h3>
      <div ref={place} role="img" aria-label={`${props.title}. ${props.about}`} />
    </div>
  );
}
