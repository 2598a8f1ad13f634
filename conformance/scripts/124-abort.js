// exec.test.abort ends the test at once: exit 108, teardown runs.
//
// area: k6/execution
// covers: exec.test.abort, exit 108; teardown after abort
// exit: 108
// compare: errors
// mentions: enough
// range: iterations.count 2..3
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 50 };
export default function () {
  say('iteration', __ITER);
  if (__ITER === 2) { exec.test.abort('enough'); say('after', 'must not be reached'); }
}
export function teardown() { say('teardown', 'ran'); }
