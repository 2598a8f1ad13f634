// The long summary: groups, scenarios, thresholds.
//
// area: summary
// covers: --summary-mode=full
// args: --summary-mode full
// compare: summary errors
// exit: 99
import http from 'k6/http';
import { check, group } from 'k6';
import { Trend, Counter, Rate, Gauge } from 'k6/metrics';
const t = new Trend('waits', true), c = new Counter('made'), r = new Rate('good'), g = new Gauge('level');
export const options = {
  scenarios: { buy: { executor: 'shared-iterations', iterations: 2 }, browse: {
    executor: 'per-vu-iterations', vus: 2, iterations: 1, exec: 'browse', startTime: '500ms',
  } },
  thresholds: {
    http_req_duration: ['p(95)<2000', 'avg<2000'], made: ['count>5'],
    'http_reqs{name:front}': ['count==2'],
  },
};
export default function () {
  group('cart', () => {
    check(
      http.get(`${__ENV.BASE}/`, { tags: { name: 'front' } }), { 'is 200': (x) => x.status === 200 }
    );
    group(
      'pay',
      () => check(http.get(`${__ENV.BASE}/status/500`), { 'is 200': (x) => x.status === 200 })
    );
  });
  t.add(12); c.add(1); r.add(true); g.add(3);
}
export function browse() {
  check(http.get(`${__ENV.BASE}/text`), { 'is text': (x) => x.body.length > 3 });
}
