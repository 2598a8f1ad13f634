// Thresholds on data that is missing: which hold, which fail.
//
// area: thresholds
// covers: thresholds without samples
// exit: 0
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const c = new Counter('c0'), g = new Gauge('g0'), r = new Rate('r0'), t = new Trend('t0');
export const options = { thresholds: {
  c0: ['count<1'], g0: ['value<1'], r0: ['rate<1'], t0: ['avg<1', 'p(95)<1'],
  http_req_failed: ['rate<0.1'], checks: ['rate>0.9'],
} };
export default function () {}
