// A check whose function throws counts as failed and ends the iteration.
//
// area: k6: core
// covers: check whose predicate throws; exception ends the iteration
// compare: errors points
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2 };
export default function () {
  say('before', __ITER);
  check(null, { first: () => true, throws: (v) => v.missing.thing, never: () => true });
  say('after', __ITER);
}
