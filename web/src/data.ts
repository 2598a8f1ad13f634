// The record inside the page, and what can be computed from it: everything that a chart or a table
// shows for a stretch of time comes from merged histograms, as on the command line.

export type Numbers = number[];
/** First bucket's number, its count, then distance and count of each further one; 0: nothing. */
export type Flat = Numbers | 0 | { zeros: number; buckets: Numbers };

export interface Row {
  step: string;
  tags: string | null;
  requests: Numbers;
  failed: Numbers;
  max_ms: Numbers;
  sum_ms: Numbers;
  latency: Flat[];
  data_sent?: Numbers;
  data_received?: Numbers;
  status?: Record<string, Numbers>;
  errors?: Record<string, Numbers>;
}

export interface Metric {
  name: string;
  kind: "counter" | "gauge" | "rate" | "trend";
  time: boolean;
  values: (number | null | [number, number] | Flat)[];
}

export interface History {
  buckets_per_octave: number;
  relative_error: number;
  at_s: Numbers;
  over_s: Numbers;
  vus: Numbers;
  iterations: Numbers;
  dropped: Record<string, Numbers>;
  checks_passed: Numbers;
  checks_failed: Numbers;
  cores_busy: Numbers;
  loop_lag_max_ms: Numbers;
  thresholds: (number | null)[][];
  rows: Row[];
  metrics: Metric[];
  /** While a run goes on: for each slot, by which update it was last changed. */
  stamps?: Numbers;
}

/** A stage of a load: seconds since its workflow began, and rates or virtual users. */
export interface Stage { name: string; from_s: number; to_s: number; from: number; to: number }
export interface Planned { workflow: string; open: boolean; start_after_s: number; requests_per_iteration: number; stages: Stage[] }

export interface Times { min: number; mean: number; p50: number; p90: number; p95: number; p99: number; p999: number; max: number }

export interface StepSummary {
  workflow: string; method: string; url: string;
  requests: { count: number; failed: number; rate: number };
  latency_ms: Times;
  phases_ms: Record<string, { mean: number; p95: number; max: number }>;
  status: Record<string, number>;
  errors: Record<string, number>;
  tags: Record<string, { count: number; failed: number; latency_ms: Times }>;
  data_sent: number; data_received: number;
}

export interface Run {
  schema: string;
  kind: "plan" | "script";
  schedule?: Planned[] | null;
  summary: {
    plan: string; elapsed_s: number;
    requests: { count: number; failed: number; rate: number };
    steps: Record<string, StepSummary>;
    workflows: Record<string, { started_s: number; ended_s: number }>;
    thresholds: { label: string; hold: string; value: number | null; ok: boolean; unit: string }[];
    error_samples: { kind: string; step: string; count: number; at_s: number; message: string; exchange?: string; later?: { at_s: number; message: string; exchange?: string }[] }[];
    timeline: { at_s: number; event: string }[];
  };
  history: History;
}

/** The record's bytes from their text in a page. */
export function packed(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export async function unpack(bytes: Uint8Array): Promise<Run> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Run;
}

/** Which slots lie within a stretch of time, as [from, to). */
export function slotsIn(history: History, range: [number, number] | null): [number, number] {
  if (!range) return [0, history.at_s.length];
  let from = 0;
  while (from < history.at_s.length && history.at_s[from] <= range[0]) from++;
  let to = from;
  while (to < history.at_s.length && history.at_s[to] - history.over_s[to] < range[1]) to++;
  return [from, to];
}

/** Counts by bucket, of several slots or steps. */
export class Histogram {
  readonly counts = new Map<number, number>();
  zeros = 0;
  count = 0;

  add(flat: Flat): void {
    if (flat === 0) return;
    let numbers: Numbers;
    if (Array.isArray(flat)) numbers = flat;
    else {
      numbers = flat.buckets;
      this.zeros += flat.zeros;
      this.count += flat.zeros;
    }
    let bucket = 0;
    for (let i = 0; i + 1 < numbers.length; i += 2) {
      bucket += numbers[i];
      this.counts.set(bucket, (this.counts.get(bucket) ?? 0) + numbers[i + 1]);
      this.count += numbers[i + 1];
    }
  }

  /** Milliseconds; never above the largest, which is known exactly. */
  percentiles(percents: number[], octave: number, max: number): (number | null)[] {
    if (this.count === 0) return percents.map(() => null);
    const sorted = [...this.counts.entries()].sort((a, b) => a[0] - b[0]);
    return percents.map((percent) => {
      const rank = Math.min(Math.max(Math.ceil((percent / 100) * this.count), 1), this.count);
      let seen = this.zeros;
      if (rank <= seen) return 0;
      for (const [bucket, count] of sorted) {
        seen += count;
        if (rank <= seen) return Math.min(middle(bucket, octave), max);
      }
      return max;
    });
  }
}

/** The middle of a bucket, in milliseconds. */
export function middle(bucket: number, octave: number): number {
  return 1000 * 2 ** ((bucket + 0.5) / octave);
}

/** Rows that together are all requests, or the one that is chosen. */
export function chosenRows(history: History, chosen: string | null): Row[] {
  if (chosen === null) return history.rows.filter((row) => row.tags === null);
  return history.rows.filter((row) => rowKey(row) === chosen);
}

export function rowKey(row: { step: string; tags: string | null }): string {
  return row.tags === null ? row.step : `${row.step} › ${row.tags}`;
}

/** One value per slot: the sum over rows. */
export function sums(rows: Row[], of: (row: Row) => Numbers | undefined, length: number): Numbers {
  const out = new Array<number>(length).fill(0);
  for (const row of rows) of(row)?.forEach((value, slot) => { out[slot] += value; });
  return out;
}

export interface SlotTimes { p50: (number | null)[]; p95: (number | null)[]; p99: (number | null)[]; max: (number | null)[] }

interface Merged { stamp: number; histogram: Histogram; times: [number | null, number | null, number | null, number | null] }
let merged: { of: string; slots: Merged[] } = { of: "", slots: [] };

/** All latencies of each slot. What has not changed since the last call is not merged again. */
export function mergedSlots(history: History, rows: Row[]): Merged[] {
  const of = `${rows.map(rowKey).join("\n")}@${history.stamps ? "live" : "whole"}`;
  if (merged.of !== of) merged = { of, slots: [] };
  merged.slots.length = Math.min(merged.slots.length, history.at_s.length);
  for (let slot = 0; slot < history.at_s.length; slot++) {
    const stamp = history.stamps?.[slot] ?? -1;
    if (merged.slots[slot]?.stamp === stamp) continue;
    const histogram = new Histogram();
    let max = 0;
    for (const row of rows) {
      histogram.add(row.latency[slot]);
      max = Math.max(max, row.max_ms[slot]);
    }
    const [p50, p95, p99] = histogram.percentiles([50, 95, 99], history.buckets_per_octave, max);
    merged.slots[slot] = { stamp, histogram, times: [p50, p95, p99, histogram.count > 0 ? max : null] };
  }
  return merged.slots;
}

export function percentilesOverTime(history: History, rows: Row[]): SlotTimes {
  const slots = mergedSlots(history, rows);
  const of = (number: number) => slots.map((slot) => slot.times[number]);
  return { p50: of(0), p95: of(1), p99: of(2), max: of(3) };
}

export interface Band { from: number; to: number; name: string; workflow: string }

/** Stages in the run's own time, of workflows that have begun and have more than one. */
export function bandsOf(run: Run): Band[] {
  return (run.schedule ?? []).flatMap((planned) => {
    const began = run.summary.workflows[planned.workflow];
    if (!began || planned.stages.length < 2 || (began.started_s === 0 && began.ended_s === 0)) return [];
    const start = began.started_s + planned.start_after_s;
    return planned.stages.map((stage) => ({ from: start + stage.from_s, to: start + stage.to_s, name: stage.name, workflow: planned.workflow }));
  });
}

/** What the plan wanted at each moment, per second: iterations, or requests; `null`: it does not say. */
export function plannedRate(run: Run, at: Numbers, requests: boolean): (number | null)[] | null {
  const open = (run.schedule ?? []).filter((planned) => planned.open && run.summary.workflows[planned.workflow]);
  if (open.length === 0 || open.length !== run.schedule?.length) return null;
  if (requests && open.some((planned) => planned.requests_per_iteration === 0)) return null;
  return at.map((moment) => {
    let sum = 0;
    for (const planned of open) {
      const began = run.summary.workflows[planned.workflow];
      const t = moment - began.started_s - planned.start_after_s;
      const stage = planned.stages.find((one) => t >= one.from_s && t < one.to_s);
      if (!stage) continue;
      const along = (t - stage.from_s) / (stage.to_s - stage.from_s);
      sum += (stage.from + (stage.to - stage.from) * along) * (requests ? planned.requests_per_iteration : 1);
    }
    return sum;
  });
}

export interface RowFigures {
  key: string; row: Row; count: number; failed: number; rate: number;
  p50: number | null; p90: number | null; p95: number | null; p99: number | null; p999: number | null; max: number | null;
}

/** A row's figures within a stretch of time, from its slots. */
export function figuresIn(history: History, row: Row, [from, to]: [number, number]): RowFigures {
  const histogram = new Histogram();
  let [count, failed, over, max] = [0, 0, 0, 0];
  for (let slot = from; slot < to; slot++) {
    histogram.add(row.latency[slot]);
    count += row.requests[slot];
    failed += row.failed[slot];
    over += history.over_s[slot];
    max = Math.max(max, row.max_ms[slot]);
  }
  const [p50, p90, p95, p99, p999] =
    histogram.percentiles([50, 90, 95, 99, 99.9], history.buckets_per_octave, max);
  return { key: rowKey(row), row, count, failed, rate: over > 0 ? count / over : 0, p50, p90, p95, p99, p999, max: histogram.count ? max : null };
}

/** The same of the whole run: the summary's own numbers. */
export function figuresOf(run: Run, row: Row): RowFigures {
  const step = run.summary.steps[row.step];
  const tagged = row.tags === null ? null : step?.tags[row.tags];
  const times = tagged ? tagged.latency_ms : step?.latency_ms;
  const known = tagged ?? (row.tags === null ? step?.requests : undefined);
  if (!step || !known || !times) return figuresIn(run.history, row, [0, run.history.at_s.length]);
  const share = tagged ? tagged.count / Math.max(step.requests.count, 1) : 1;
  const { p50, p90, p95, p99, p999, max } = times;
  return { key: rowKey(row), row, count: known.count, failed: known.failed, rate: step.requests.rate * share, p50, p90, p95, p99, p999, max };
}
