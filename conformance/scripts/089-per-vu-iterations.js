// Every VU runs exactly its iterations.
//
// area: executors
// covers: per-vu-iterations
// order: any
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { scenarios: { s: {
  executor: 'per-vu-iterations', vus: 3, iterations: 4, maxDuration: '20s',
} } };
export default function () { say('ran', [__VU, __ITER]); sleep(0.02 * __VU); }
