// The four kinds of own metrics, with and without tags.
//
// area: k6/metrics
// covers: Counter; Gauge; Rate; Trend; metric.add with tags; metric.name
// compare: points summary
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const counter = new Counter('my_counter');
const gauge = new Gauge('my_gauge');
const rate = new Rate('my_rate');
const trend = new Trend('my_trend');
export const options = {
  iterations: 3,
  thresholds: {
    my_counter: ['count==18'], 'my_counter{kind:a}': ['count==9'], my_gauge: ['value==2'],
    my_rate: ['rate>0.3'], my_trend: [
      'avg==2', 'max<=3', 'min>=1', 'med==2', 'p(95)<3',
    ], 'my_trend{kind:a}': ['max<10'],
  },
};
export default function () {
  counter.add(1); counter.add(2); counter.add(3, { kind: 'a' });
  gauge.add(__ITER);
  rate.add(__ITER === 0); rate.add(1); rate.add(0, { kind: 'b' });
  trend.add(__ITER + 1); trend.add(2, { kind: 'a', n: 1 });
  say('metric.name', [counter.name, trend.name, counter.add(0)]);
}
