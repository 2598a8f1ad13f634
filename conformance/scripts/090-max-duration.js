// maxDuration cuts the iterations short; the rest is dropped.
//
// area: executors
// covers: maxDuration; dropped_iterations
// range: iterations.count 4..6
// range: dropped_iterations.count 4..6
import { sleep } from 'k6';
export const options = { scenarios: { s: {
  executor: 'shared-iterations', vus: 1, iterations: 10, maxDuration: '1s', gracefulStop: '1s',
} } };
export default function () { sleep(0.22); }
