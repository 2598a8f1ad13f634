// Percentiles of known numbers: exactly the same interpolation.
//
// area: k6/metrics
// covers: Trend percentiles; Trend with one value; Trend with equal values
import { Trend } from 'k6/metrics';
const hundred = new Trend('hundred');
const one = new Trend('one_value');
const equal = new Trend('equal_values');
const skewed = new Trend('skewed');
const never = new Trend('never_added');
export const options = {
  summaryTrendStats: [
    'avg', 'min', 'med', 'max', 'p(1)', 'p(25)', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.99)',
    'count',
  ],
  thresholds: {
    hundred: ['p(90)<=90.2', 'p(99.9)>99'], never_added: ['avg<1'], one_value: ['med==7'],
  },
};
export default function () {
  for (let i = 1; i <= 100; i++) { hundred.add(i); equal.add(3); skewed.add(Math.pow(1.1, i)); }
  one.add(7);
}
