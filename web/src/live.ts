// A run that goes on: the stream of changes, and the run that they make together.
//
// The server holds the newest state only. An event brings what changed since the one before it, by
// slot and by part of the page; after a break the browser says what it saw last and gets the rest.

import { type Flat, type History, type Metric, type Numbers, type Row, type Run, mergedSlots, packed, rowKey, unpack } from "./data";

export interface Update {
  viewers: number;
  /** How many slots there are now, and the first of those that are in `history`. */
  slots: number;
  from: number;
  words: string;
  parts?: Record<string, string>;
  state?: string;
  document?: Omit<Run, "history">;
  history?: History;
}

/** Old values up to `from`, then the new ones. */
function spliced<T>(old: T[] | undefined, from: number, more: T[] | undefined, slots: number, none: T): T[] {
  const out = (old ?? []).slice(0, from);
  while (out.length < from) out.push(none);
  out.push(...(more ?? []));
  while (out.length < slots) out.push(none);
  out.length = slots;
  return out;
}

function splicedAll(old: Record<string, Numbers> | undefined, from: number, more: Record<string, Numbers> | undefined, slots: number): Record<string, Numbers> {
  const out: Record<string, Numbers> = {};
  for (const name of Object.keys(more ?? {})) out[name] = spliced(old?.[name], from, more?.[name], slots, 0);
  return out;
}

let stamp = 0;

/** The history with the slots of an update in their places. */
export function joined(old: History | undefined, { history: more, from, slots }: Update): History | undefined {
  if (!more) return old;
  stamp++;
  const numbers = (of: (history: History) => Numbers) => spliced(old && of(old), from, of(more), slots, 0);
  const rows = more.rows.map((row): Row => {
    const known = old?.rows.find((one) => rowKey(one) === rowKey(row));
    return {
      ...row,
      requests: spliced(known?.requests, from, row.requests, slots, 0),
      failed: spliced(known?.failed, from, row.failed, slots, 0),
      max_ms: spliced(known?.max_ms, from, row.max_ms, slots, 0),
      sum_ms: spliced(known?.sum_ms, from, row.sum_ms, slots, 0),
      latency: spliced<Flat>(known?.latency, from, row.latency, slots, 0),
      ...(row.data_sent ? { data_sent: spliced(known?.data_sent, from, row.data_sent, slots, 0) } : {}),
      ...(row.data_received ? { data_received: spliced(known?.data_received, from, row.data_received, slots, 0) } : {}),
      ...(row.status ? { status: splicedAll(known?.status, from, row.status, slots) } : {}),
      ...(row.errors ? { errors: splicedAll(known?.errors, from, row.errors, slots) } : {}),
    };
  });
  const metrics = more.metrics.map((metric): Metric => {
    const known = old?.metrics.find((one) => one.name === metric.name);
    return { ...metric, values: spliced(known?.values, from, metric.values, slots, null) };
  });
  return {
    ...more,
    at_s: numbers((one) => one.at_s),
    over_s: numbers((one) => one.over_s),
    vus: numbers((one) => one.vus),
    iterations: numbers((one) => one.iterations),
    dropped: splicedAll(old?.dropped, from, more.dropped, slots),
    checks_passed: numbers((one) => one.checks_passed),
    checks_failed: numbers((one) => one.checks_failed),
    cores_busy: numbers((one) => one.cores_busy),
    loop_lag_max_ms: numbers((one) => one.loop_lag_max_ms),
    thresholds: more.thresholds.map((values, number) => spliced<number | null>(old?.thresholds[number], from, values, slots, null)),
    rows,
    metrics,
    stamps: spliced(old?.stamps, from, more.at_s.map(() => stamp), slots, 0),
  };
}

/** Everything that this page knows, as a record that `volley report` reads. */
export async function recordOf(run: Run): Promise<Uint8Array> {
  const { history } = run;
  const rows = history.rows.filter((row) => row.tags === null);
  const slots = mergedSlots(history, rows);
  const sum = (of: (row: Row) => Numbers, slot: number) => rows.reduce((total, row) => total + of(row)[slot], 0);
  const points = history.at_s.map((at_s, slot) => {
    const [p50_ms, p95_ms, p99_ms] = slots[slot].times.map((ms) => ms ?? 0);
    const [requests, failed] = [sum((row) => row.requests, slot), sum((row) => row.failed, slot)];
    return { at_s, over_s: history.over_s[slot], requests, failed, vus: history.vus[slot], p50_ms, p95_ms, p99_ms };
  });
  const { stamps: _, ...kept } = history;
  const whole = JSON.stringify({ ...run, summary: { ...run.summary, history: points }, history: kept });
  const stream = new Blob([whole]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export interface Finished { run: Run; record: Uint8Array; report: string; parts: Record<string, string> }

async function finished(data: string): Promise<Finished> {
  const { parts, report } = JSON.parse(data) as { parts: Record<string, string>; report: string };
  // Not parsed as a page: this one's policy would complain of its style.
  const record = packed(/id="record">([^<]*)</.exec(report)?.[1] ?? "");
  return { run: await unpack(record), record, report, parts };
}

export interface Listener {
  update: (update: Update) => void;
  end: (finished: Finished) => void;
  /** Nobody is there, or there is nothing for us. */
  lost: (why: "silent" | "refused") => void;
  back: () => void;
}

/** So many streams leave room for what else a browser asks of the same server. */
const STREAMS_MAX = 4;

/** Follows a run until its end. */
export function follow(path: string, listener: Listener): void {
  let source: EventSource | null = null;
  let seen = "";
  let over = false;
  let was_lost = false;
  const close = () => { source?.close(); source = null; };
  const open = () => {
    if (over || source) return;
    source = new EventSource(seen ? `${path}?after=${encodeURIComponent(seen)}` : path);
    source.onopen = () => { if (was_lost) listener.back(); was_lost = false; };
    source.onerror = () => {
      was_lost = true;
      const refused = source?.readyState === EventSource.CLOSED;
      listener.lost(refused ? "refused" : "silent");
      if (refused) {
        close();
        setTimeout(open, 5000);
      }
    };
    source.addEventListener("update", (event) => {
      if (event.lastEventId) seen = event.lastEventId;
      const update = JSON.parse(event.data as string) as Update;
      listener.update(update);
      // Where many pages are open, only those that somebody sees are kept up to date.
      if (document.hidden && update.viewers > STREAMS_MAX) close();
    });
    source.addEventListener("end", (event) => {
      over = true;
      close();
      void finished(event.data as string).then(listener.end);
    });
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) open(); });
  open();
}

/** Whether the server knows this browser now. The token leaves the address at once. */
export async function login(): Promise<void> {
  const query = new URLSearchParams(location.hash.replace(/^#/, ""));
  const token = query.get("token");
  if (token === null) return;
  query.delete("token");
  const rest = query.toString();
  history.replaceState(null, "", location.pathname + location.search + (rest ? `#${rest}` : ""));
  await post("/login", { token });
}

/** What a server said to a question; `problem` if it refused. */
export async function post(path: string, body: unknown): Promise<{ done?: string; problem?: string }> {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (response.status === 204) return {};
  const text = await response.text();
  try {
    return JSON.parse(text) as { done?: string; problem?: string };
  } catch {
    return { problem: text.trim() || `status ${response.status}` };
  }
}
