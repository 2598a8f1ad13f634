// sleep waits so many seconds, fractions too.
//
// area: k6: core
// covers: sleep
// range: iteration_duration.min 590..2000
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const timed = (s) => { const t = Date.now(); sleep(s); return Date.now() - t; };
  say('sleep', timed(0.3) >= 295);
  say('text', (() => { const ms = timed('0.3'); return ms >= 295 && ms < 1500; })());
  say('zero', timed(0) < 200);
  say('negative', timed(-1) < 200);
  say('returns', sleep(0.001) === undefined);
}
