// SIGINT stops the run: exit 105, teardown and summary still come.
//
// area: lifecycle
// covers: SIGINT, exit 105
// exit: 105
// compare: errors
// signal: INT 1.5
// range: iterations.count 3..30
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { duration: '30s' };
export default function () { sleep(0.2); }
export function teardown() { say('teardown', 'ran'); }
export function handleSummary(data) {
  say('handleSummary', data.metrics.iterations.values.count > 0);
  return {};
}
