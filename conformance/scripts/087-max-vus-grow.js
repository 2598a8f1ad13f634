// VUs beyond preAllocatedVUs are made while it runs.
//
// area: executors
// covers: maxVUs; vus_max
// range: iterations.count 25..42
// range: vus_max.max 6..12
// range: dropped_iterations.count 0..15
// timing: dropped_iterations
import { sleep } from 'k6';
export const options = { scenarios: { open: {
  executor: 'constant-arrival-rate', rate: 20, duration: '2s', preAllocatedVUs: 2, maxVUs: 12,
} } };
export default function () { sleep(0.4); }
