// An iteration that allocates without end fails; the next one runs, memory stays bounded.
//
// area: bad input
// covers: endless allocation
// volley-only: k6 1.1 has no limit here, it grows until the machine's memory is used up
// memory-mb: 2000
// mentions: 193-endless-memory.js
// result: next 1
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2 };
export default function () {
  if (__ITER === 0) { const all = []; for (let i = 0; ; i++) all.push(`${i} `.repeat(10000)); }
  say('next', __ITER);
}
