// Values that are no numbers.
//
// area: k6/metrics
// covers: metric.add with odd values; metric.add with bad tags
// compare: points
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const c = new Counter('odd_counter');
const g = new Gauge('odd_gauge');
const r = new Rate('odd_rate');
const t = new Trend('odd_trend');
export default function () {
  const outcome = (f) => { try { return String(f()); } catch (e) { return 'thrown'; } };
  for (const value of [NaN, 'text', '5', '1.5', null, undefined, true, false, {}, [], -2.5, '']) {
    say(`value ${String(value)} ${typeof value}`, [
      outcome(() => c.add(value)), outcome(() => g.add(value)), outcome(() => r.add(value)),
      outcome(() => t.add(value)),
    ]);
  }
  say('nothing', outcome(() => c.add()));
  say('metric.add with bad tags', [
    outcome(() => c.add(1, 'text')), outcome(() => c.add(1, null)),
    outcome(() => c.add(1, { a: { b: 1 } })), outcome(() => c.add(1, { a: null })),
  ]);
}
