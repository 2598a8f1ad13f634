// Small pictures: latency against rate, and how the value of a threshold went.

import type { Run } from "./data";
import { rate, time } from "./format";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [560, 220, 58, 26];

/** Labels of an axis by powers: the narrower, the more. */
function factors(spread: number): number[] {
  return spread > 150 ? [1] : spread > 8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
}

/** One dot per slot: where latency rises while the rate does not, the target is at its limit. */
export function Scatter({ rates, times }: { rates: number[]; times: (number | null)[]; theme: number }) {
  const dots = rates.map((x, slot) => [x, times[slot]] as const).filter((dot): dot is readonly [number, number] => dot[1] !== null && dot[1] > 0);
  if (dots.length < 2) return null;
  const right = Math.max(...dots.map(([x]) => x)) * 1.05;
  const low = Math.min(...dots.map(([, y]) => y)) / 1.2;
  const high = Math.max(...dots.map(([, y]) => y)) * 1.2;
  const x = (value: number) => LEFT + (value / right) * (WIDTH - LEFT - 12);
  const y = (value: number) => HEIGHT - BOTTOM - (Math.log(value / low) / Math.log(high / low)) * (HEIGHT - BOTTOM - 10);
  const step = 10 ** Math.floor(Math.log10(right / 2));
  const every = right / step > 12 ? step * 5 : right / step > 5 ? step * 2 : step;
  const ticks = Array.from({ length: Math.floor(right / every) + 1 }, (_, n) => n * every);
  const labels: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of factors(high / low)) if (power * factor >= low && power * factor <= high) labels.push(power * factor);
  }
  return (
    <div class="chart">
      <h3>p99 against requests per second, one dot per slot</h3>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" font-size="11" aria-label={`p99 latency against rate, ${dots.length} slots`}>
        {labels.map((value) => (
          <g><path class="grid" d={`M${LEFT} ${y(value)}H${WIDTH - 12}`} /><text class="label" x={LEFT - 6} y={y(value) + 4} text-anchor="end">{time(value)}</text></g>
        ))}
        {ticks.map((value) => <text class="label" x={x(value)} y={HEIGHT - 8} text-anchor="middle">{rate(value)}</text>)}
        {dots.map(([a, b]) => <circle class="fill c1" cx={x(a)} cy={y(b)} r="3" fill-opacity="0.55" />)}
      </svg>
    </div>
  );
}

/** The limit of `p(95) < 200ms`, in the unit of the values; `null`: not known. */
function limitOf(hold: string): number | null {
  const found = /[<>]=?\s*(-?[\d.]+)\s*(ms|s|m|%)?/.exec(hold);
  if (!found) return null;
  const factor = { ms: 1, s: 1000, m: 60000, "%": 0.01 }[found[2] ?? "ms"] ?? 1;
  return Number(found[1]) * factor;
}

/** Fills the last column of the thresholds' table. */
export function sparklines(run: Run): void {
  for (const place of document.querySelectorAll<HTMLElement>("td[data-threshold]")) {
    const number = Number(place.dataset.threshold);
    const values = run.history.thresholds[number] ?? [];
    const known = values.filter((value): value is number => value !== null);
    if (known.length < 2) continue;
    const limit = limitOf(run.summary.thresholds[number]?.hold ?? "");
    const high = Math.max(...known, limit ?? 0, 1e-9) * 1.1;
    const [width, height] = [180, 30];
    const x = (slot: number) => (slot / (values.length - 1)) * width;
    const y = (value: number) => height - 2 - (value / high) * (height - 4);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Its value over time${limit === null ? "" : ", with the limit as a dashed line"}`);
    const path = (d: string, name: string) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
      element.setAttribute("d", d);
      element.setAttribute("fill", "none");
      element.setAttribute("class", `line ${name}`);
      element.setAttribute("stroke-width", "1.5");
      svg.append(element);
      return element;
    };
    let d = "";
    values.forEach((value, slot) => { if (value !== null) d += `${d ? "L" : "M"}${x(slot).toFixed(1)} ${y(value).toFixed(1)}`; });
    path(d, "c1");
    if (limit !== null && limit > 0) path(`M0 ${y(limit).toFixed(1)}H${width}`, "c3").setAttribute("stroke-dasharray", "4 3");
    place.replaceChildren(svg);
  }
}
