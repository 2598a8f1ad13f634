// Every aggregation and operator, all holding.
//
// area: thresholds
// covers: threshold aggregations; threshold operators; several thresholds on one metric
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const c = new Counter('cc'), g = new Gauge('gg'), r = new Rate('rr'), t = new Trend('tt');
export const options = {
  iterations: 4,
  thresholds: {
    cc: [
      'count>3', 'count>=4', 'count==4', 'count===4', 'count<5', 'count<=4', 'count!=5', 'rate>0',
    ],
    gg: ['value==7', 'value!=8'], rr: ['rate==0.5', 'rate>0.49', 'rate<0.51'],
    tt: [
      'avg==2.5', 'min==1', 'max==4', 'med==2.5', 'p(50)==2.5', 'p(90)<4', 'p(99.9)<4', 'p(0)>=1',
      'p(100)<=4',
    ],
    http_reqs: ['count==4'], http_req_failed: ['rate==0'], checks: ['rate>0.99'], iterations: ['count==4'],
    http_req_duration: ['p(95)<5000', 'avg<5000'], 'data_sent': ['count>0'],
  },
};
export default function () {
  c.add(1); g.add(7); r.add(__ITER % 2); t.add(__ITER + 1);
  check(http.get(`${__ENV.BASE}/`), { ok: (x) => x.status === 200 });
}
