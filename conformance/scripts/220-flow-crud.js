// A whole script: token in setup, create, read, change, delete, groups and thresholds.
//
// area: whole scripts
// timing: create_time
// covers: token from setup; create, read, change, delete; groups with thresholds
// compare: points summary
import http from 'k6/http';
import { check, group, sleep, fail } from 'k6';
import { Trend, Rate, Counter } from 'k6/metrics';

const createTime = new Trend('create_time', true);
const failures = new Rate('failed_requests');
const made = new Counter('items_made');

export const options = {
  vus: 2,
  iterations: 6,
  thresholds: {
    http_req_failed: ['rate<0.01'],
    http_req_duration: ['p(95)<3000', 'p(99)<4000'],
    'http_req_duration{name:create}': ['max<4000'],
    failed_requests: ['rate<0.1'],
    items_made: ['count==6'],
    checks: [{ threshold: 'rate>0.95', abortOnFail: true, delayAbortEval: '10s' }],
  },
};
const BASE = __ENV.BASE || 'http://localhost';

export function setup() {
  const res = http.post(
    `${BASE}/echo`, JSON.stringify({ username: 'ada', password: 'x' }),
    { headers: { 'Content-Type': 'application/json' } }
  );
  if (res.status !== 200) fail('no login');
  return { token: `t-${res.json('bytes')}` };
}
export default function (data) {
  const params = { headers: {
    Authorization: `Bearer ${data.token}`, 'Content-Type': 'application/json',
  } };
  group('create', () => {
    const res = http.post(
      `${BASE}/echo`, JSON.stringify({ title: 'new' }), { ...params, tags: { name: 'create' } }
    );
    createTime.add(res.timings.duration);
    failures.add(res.status !== 200);
    made.add(1);
    check(
      res,
      {
        'created': (r) => r.status === 200,
        'token came': (r) => r.json('headers.authorization') === `Bearer ${data.token}`,
      }
    );
  });
  group('read and change', () => {
    const list = http.get(`${BASE}/json`, params).json('items');
    check(list, { 'two items': (l) => l.length === 2 });
    for (const { id } of list) {
      check(http.put(
        `${BASE}/echo/${id}`, JSON.stringify({ id }), { ...params, tags: { name: 'change' } }
      ), { changed: (r) => JSON.parse(r.json('body')).id === id });
    }
  });
  group('delete', () => { check(http.del(
    `${BASE}/echo/1`, null, params
  ), { deleted: (r) => r.status === 200 }); });
  sleep(0.05);
}
export function teardown(data) { http.post(`${BASE}/echo?logout`, data.token); }
