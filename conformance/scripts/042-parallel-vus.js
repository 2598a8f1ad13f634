// Several VUs share a target; every request is counted once.
//
// area: k6/http: requests
// covers: http.get; http_reqs; data_received
// order: any
import http from 'k6/http';
import { check } from 'k6';
export const options = {
  vus: 5, iterations: 60, thresholds: { http_reqs: ['count==120'], checks: ['rate==1'] },
};
export default function () {
  const res = http.get(`${__ENV.BASE}/json`);
  check(
    res,
    {
      'status is 200': (r) => r.status === 200,
      'has items': (r) => JSON.parse(r.body).items.length === 2,
    }
  );
  http.post(`${__ENV.BASE}/echo`, JSON.stringify({ vu: 1 }));
}
