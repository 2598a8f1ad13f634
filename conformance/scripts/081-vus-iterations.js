// vus and iterations at the top: shared iterations.
//
// area: options
// covers: options.vus; options.iterations; shared-iterations
// order: any
import exec from 'k6/execution';
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { vus: 3, iterations: 9 };
export default function () {
  say('iteration', [exec.scenario.iterationInTest, exec.scenario.executor]);
  sleep(0.05);
}
