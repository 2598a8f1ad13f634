// The executor that is steered from outside, left alone.
//
// area: executors
// covers: externally-controlled
// range: iterations.count 8..22
import { sleep } from 'k6';
export const options = { scenarios: { s: {
  executor: 'externally-controlled', vus: 2, maxVUs: 4, duration: '1500ms',
} } };
export default function () { sleep(0.2); }
