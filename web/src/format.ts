// Numbers as the command line writes them.

export function count(n: number): string {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** To three digits, without an exponent. */
function three(n: number): string {
  const digits = n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return n.toFixed(digits);
}

export function time(ms: number | null): string {
  if (ms === null || Number.isNaN(ms)) return "–";
  if (ms === 0) return "0";
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))}µs`;
  if (ms < 1000) return `${three(ms)}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${three(seconds)}s`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3600)}h${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
}

export function rate(perSecond: number): string {
  if (perSecond >= 1000) return count(perSecond);
  if (perSecond >= 100) return perSecond.toFixed(0);
  if (perSecond >= 10) return perSecond.toFixed(1);
  return perSecond.toFixed(2);
}

/** A moment of the run. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (h > 0) return `${h}:${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}`;
  if (m > 0) return `${m}:${String(s).padStart(2, "0")}`;
  return seconds % 1 === 0 ? `${s}s` : `${seconds.toFixed(1)}s`;
}

export function bytes(n: number): string {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (n >= size) return `${three(n / size)} ${unit}`;
  }
  return `${Math.round(n)} B`;
}

export function percent(share: number): string {
  if (share === 0) return "0%";
  return `${(share * 100).toFixed(share < 0.001 ? 3 : share < 0.1 ? 2 : 1)}%`;
}
