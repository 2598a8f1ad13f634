// Recursion without end becomes an exception; other iterations go on.
//
// area: bad input
// covers: endless recursion
// volley-only: k6 1.1 has no limit here, it grows until the machine's memory is used up
// result: endless recursion "thrown"
// result: next 0
// result: next 1
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2 };
function down(n) { return down(n + 1) + 1; }
export default function () {
  if (__ITER === 0) { try {
    down(0);
    say('endless recursion', 'returned');
  } catch (e) { say('endless recursion', 'thrown'); } }
  say('next', __ITER);
}
