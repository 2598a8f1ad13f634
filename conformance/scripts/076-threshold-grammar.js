// Spaces and forms that the grammar allows.
//
// area: thresholds
// covers: threshold grammar
import { Trend, Counter } from 'k6/metrics';
const t = new Trend('tt'), c = new Counter('cc');
export const options = { thresholds: { tt: [
  'p(95) < 200', ' avg<100', 'max <=5', 'p(99.99)<  10', 'med>-1',
  'avg<1e3'.replace('1e3', '1000.5'),
], cc: [{ threshold: 'count >= 1' }, 'rate >= 0'] } };
export default function () { t.add(5); c.add(1); }
