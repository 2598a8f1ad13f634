// A chart over the run's time: one cursor for all of them, drag to zoom, double click to go back.

import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { Histogram, type History, type Row, middle } from "./data";
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
  ctx.globalAlpha = 0.55;
  ctx.setLineDash([3, 4]);
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.at, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
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
  for (let slot = 0; slot < history.at_s.length; slot++) {
    const histogram = new Histogram();
    for (const row of rows) histogram.add(row.latency[slot]);
    const cells = new Map<number, number>();
    const over = Math.max(history.over_s[slot], 0.001);
    for (const [bucket, count] of histogram.counts) {
      const cell = Math.floor(bucket / together);
      const dense = (cells.get(cell) ?? 0) + count / over;
      cells.set(cell, dense);
      most = Math.max(most, dense);
    }
    columns.push([history.at_s[slot] - over, history.at_s[slot], cells]);
  }
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
  for (const row of rows) {
    for (const flat of row.latency) {
      const histogram = new Histogram();
      histogram.add(flat);
      for (const bucket of histogram.counts.keys()) {
        low = Math.min(low, bucket);
        high = Math.max(high, bucket);
      }
    }
  }
  if (low > high) return [1, 10];
  const octave = history.buckets_per_octave;
  return [middle(low - 3, octave), middle(high + 3, octave)];
}

function options(props: ChartProps, width: number): uPlot.Options {
  const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "11px system-ui, sans-serif" };
  const shown = (_: uPlot, value: number | null) => (value === null || value === undefined ? "–" : props.format(value));
  const scaleY: uPlot.Scale = props.log
    ? { distr: 3, log: 10, ...(props.heat ? { range: heatRange(props.heat.history, props.heat.rows) } : {}) }
    : { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] };
  const marks = props.marks;
  return {
    width,
    height: props.height ?? 190,
    cursor: { sync: { key: "run", scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { time: false, range: () => props.range ?? [0, props.end] }, y: scaleY },
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
        points: { show: props.at.length === 1 },
        value: shown,
        spanGaps: true,
        ...(line.dash ? { dash: line.dash } : {}),
        ...(line.fill ? { fill: `color-mix(in srgb, ${line.color} 16%, transparent)` } : {}),
      })),
    ],
    hooks: {
      drawAxes: [(u) => { if (props.heat) drawHeat(u, props.heat.history, props.heat.rows); }],
      draw: [(u) => drawMarks(u, marks)],
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        const from = u.posToVal(u.select.left, "x");
        const to = u.posToVal(u.select.left + u.select.width, "x");
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        props.zoom([Math.max(0, from), Math.min(props.end, to)]);
      }],
    },
  };
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

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const { lines, range, theme, at } = props;
  useEffect(() => {
    const element = place.current!;
    const values = lines.map((line) => line.values.map((value) => (props.log && value !== null && value <= 0 ? null : value)));
    const chart = new uPlot(options(props, element.clientWidth || 600), [at, ...values] as uPlot.AlignedData, element);
    chart.over.addEventListener("dblclick", () => props.zoom(null));
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== chart.width) chart.setSize({ width: element.clientWidth, height: props.height ?? 190 });
    });
    observer.observe(element);
    return () => { observer.disconnect(); chart.destroy(); };
  }, [lines, theme, range?.[0], range?.[1]]);
  return (
    <div class={`chart ${props.class ?? ""}`}>
      <h3>{props.title}</h3>
      <div ref={place} role="img" aria-label={`${props.title}. ${props.about}`} />
    </div>
  );
}
