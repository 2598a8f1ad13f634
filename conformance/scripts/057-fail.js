// fail ends the iteration, not the test.
//
// area: k6: core
// covers: fail
// compare: errors
import { fail, check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 4 };
export default function () {
  if (__ITER % 2 === 0) { if (!check(1, { even: () => false })) fail('even iterations fail'); }
  say('reached', __ITER);
  try { fail('caught'); } catch (e) { say('fail', [String(e).includes('caught')]); }
}
