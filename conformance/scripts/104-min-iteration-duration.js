// minIterationDuration stretches short iterations.
//
// area: options
// covers: options.minIterationDuration
// range: iteration_duration.max 0..200
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 3, minIterationDuration: '300ms' };
let last = 0;
export default function () {
  const now = Date.now();
  say('options.minIterationDuration', last === 0 || now - last >= 295);
  last = now;
}
