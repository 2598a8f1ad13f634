// The same for iterations per VU.
//
// area: executors
// covers: per-vu-iterations; maxDuration; dropped_iterations
// range: iterations.count 4..8
// range: dropped_iterations.count 12..16
import { sleep } from 'k6';
export const options = { scenarios: { s: {
  executor: 'per-vu-iterations', vus: 2, iterations: 10, maxDuration: '1s', gracefulStop: '1s',
} } };
export default function () { sleep(0.35); }
