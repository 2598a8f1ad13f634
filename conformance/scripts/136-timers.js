// Timers: order, repeating, clearing, arguments; the iteration waits for them.
//
// area: timers
// covers: setTimeout; clearTimeout; setInterval; clearInterval; k6/timers
// covers: iteration waits for timers
// range: iteration_duration.max 295..1500
import {
  setTimeout as later, clearTimeout as cancel, setInterval as often, clearInterval as stop,
} from 'k6/timers';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const order = [];
  setTimeout(() => order.push('late'), 60);
  setTimeout(() => order.push('early'), 20);
  setTimeout(() => order.push('zero'));
  const gone = setTimeout(() => order.push('never'), 10);
  clearTimeout(gone);
  later((a, b) => order.push(a + b), 40, 'ar', 'gs');
  let ticks = 0;
  const id = setInterval(() => { ticks += 1; if (ticks === 3) clearInterval(id); }, 30);
  const other = often(() => {}, 1000);
  stop(other);
  cancel(later(() => order.push('never too'), 5));
  Promise.resolve().then(() => order.push('promise'));
  order.push('sync');
  setTimeout(() => {
    say('order', order);
    say('ticks', ticks);
    say('ids', [typeof id, id !== gone]);
  }, 300);
}
