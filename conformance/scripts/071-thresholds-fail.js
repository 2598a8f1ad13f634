// One threshold fails: exit code 99, and each verdict is told.
//
// area: thresholds
// covers: failed threshold, exit 99
// exit: 99
// compare: summary errors
// mentions: my_count
import { Counter, Trend } from 'k6/metrics';
import { check } from 'k6';
const c = new Counter('my_count'), t = new Trend('my_trend');
export const options = { iterations: 3, thresholds: {
  my_count: ['count>=3', 'count>100'], my_trend: ['max<2', 'min<1'], checks: ['rate==1'],
} };
export default function () { c.add(1); t.add(__ITER); check(1, { fine: () => true }); }
