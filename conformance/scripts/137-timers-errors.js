// What goes wrong in timers and promises.
//
// area: timers
// covers: exception in a timer; rejected promise; timer with bad input
// compare: errors
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 3 };
export default function () {
  if (__ITER === 0) {
    setTimeout(() => { throw new Error('in timer'); }, 10);
    setTimeout(() => say('later timer', 'ran'), 100);
  }
  if (__ITER === 1) { Promise.reject(new Error('nobody listens')); say('after reject', __ITER); }
  if (__ITER === 2) {
    const attempt = (f) => { try { f(); return 'taken'; } catch (e) { return 'thrown'; } };
    say('timer with bad input', [
      attempt(() => setTimeout()), attempt(() => setTimeout('text', 1)),
      attempt(() => clearTimeout(99)), attempt(() => clearTimeout(undefined)),
    ]);
  }
}
