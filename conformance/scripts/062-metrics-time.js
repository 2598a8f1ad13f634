// A trend of times is shown with units; summaryTrendStats chooses its numbers.
//
// area: k6/metrics
// covers: new Trend(name, true); options.summaryTrendStats; options.summaryTimeUnit
// compare: points summary
import { Trend, Gauge, Counter } from 'k6/metrics';
const time = new Trend('wait_time', true);
const plain = new Trend('sizes');
const g = new Gauge('gauge_time', true);
const c = new Counter('counter_time', true);
export const options = {
  iterations: 5,
  summaryTrendStats: ['min', 'avg', 'med', 'p(10)', 'p(99)', 'p(99.9)', 'count', 'max'],
  summaryTimeUnit: 'ms',
};
export default function () {
  time.add(100 * (__ITER + 1)); plain.add(1000 * (__ITER + 1)); g.add(1500); c.add(20);
}
