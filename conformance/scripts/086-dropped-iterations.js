// Arrivals for which no VU is free are dropped and counted.
//
// area: executors
// covers: dropped_iterations; maxVUs; preAllocatedVUs
// range: iterations.count 3..6
// range: dropped_iterations.count 14..18
import { sleep } from 'k6';
export const options = { scenarios: { open: {
  executor: 'constant-arrival-rate', rate: 10, duration: '2s', preAllocatedVUs: 1, maxVUs: 1,
  gracefulStop: '2s',
} } };
export default function () { sleep(0.5); }
