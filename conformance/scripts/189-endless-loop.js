// A loop without end is stopped when the scenario ends; others are not disturbed.
//
// area: bad input
// covers: endless loop is interrupted
// order: any
// range: iterations.count 2..30
// timing: iterations
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { scenarios: {
  busy: { executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '0s', exec: 'busy' },
  calm: { executor: 'per-vu-iterations', vus: 1, iterations: 2, exec: 'calm' } } };
export function busy() { for (;;) { if (Date.now() < 0) break; } }
export function calm() { sleep(0.1); say('calm', __ITER); }
