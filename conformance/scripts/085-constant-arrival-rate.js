// A constant rate of arrivals, independent of how long they take.
//
// area: executors
// covers: constant-arrival-rate; timeUnit
// range: iterations.count 39..41
// range: vus_max.max 8..8
import { sleep } from 'k6';
import exec from 'k6/execution';
export const options = { scenarios: { open: {
  executor: 'constant-arrival-rate', rate: 1200, timeUnit: '1m', duration: '2s', preAllocatedVUs: 8,
  maxVUs: 8,
} } };
export default function () { sleep(0.25); }
