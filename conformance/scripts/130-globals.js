// __ENV, __VU, __ITER, and that VUs are isolated.
//
// area: globals
// covers: __ENV; __VU; __ITER; VU isolation
// args: -e GIVEN=value -e EMPTY=
// env: FROM_SYSTEM=yes
// order: any
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
let counter = 0;
const initVu = __VU;
export const options = { scenarios: { s: {
  executor: 'per-vu-iterations', vus: 2, iterations: 3,
} } };
export default function () {
  counter += 1;
  globalThis.shared = (globalThis.shared || 0) + 1;
  say('iteration', [__VU, __ITER, counter, globalThis.shared, initVu === __VU]);
  if (__VU === 1 && __ITER === 0) {
    say('__ENV', [
      __ENV.GIVEN, __ENV.EMPTY, __ENV.MISSING, __ENV.FROM_SYSTEM, 'GIVEN' in __ENV, typeof __ENV,
    ]);
    __ENV.NEW = 'x';
    say('write', __ENV.NEW);
  }
}
