// vu and iter as system tags, metadata of a VU.
//
// area: k6/execution
// covers: exec.vu.metrics.metadata; systemTags vu, iter
// compare: points
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const c = new Counter('counted');
export const options = { iterations: 2 };
export default function () {
  exec.vu.metrics.metadata.trace = 'abc' + __ITER;
  c.add(1);
  delete exec.vu.metrics.metadata.trace;
  c.add(1);
  say('tags', [Object.keys(exec.vu.metrics.tags).sort(), exec.vu.metrics.tags.scenario]);
  try {
    exec.vu.metrics.tags.bad = { a: 1 };
    say('object', 'taken');
  } catch (e) { say('object', 'thrown'); }
}
