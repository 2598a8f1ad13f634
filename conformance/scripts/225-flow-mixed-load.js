// A whole script: a smoke, a ramp and a constant rate side by side.
//
// area: whole scripts
// covers: mixed load; thresholds by scenario
// range: iterations.count 30..75
// range: http_reqs.count 30..80
// range: http_reqs{scenario:rate}.count 19..21
// range: http_reqs{scenario:ramp}.count 8..45
// range: checks.passes 30..80
// range: http_req_failed.fails 30..80
import http from 'k6/http';
import { check, sleep } from 'k6';
export const options = {
  discardResponseBodies: true,
  scenarios: {
    smoke: { executor: 'shared-iterations', iterations: 2, exec: 'smoke', tags: { test: 'smoke' } },
    ramp: {
      executor: 'ramping-vus', startVUs: 1,
      stages: [{ duration: '1s', target: 3 }, { duration: '1s', target: 1 }],
      gracefulRampDown: '1s', exec: 'browse',
    },
    rate: {
      executor: 'constant-arrival-rate', rate: 10, duration: '2s', preAllocatedVUs: 5, maxVUs: 10,
      exec: 'api',
    },
  },
  thresholds: {
    'http_req_duration{scenario:rate}': ['p(95)<2000'], 'http_reqs{scenario:rate}': [],
    'http_reqs{scenario:ramp}': [], 'http_reqs{test:smoke}': ['count==2'], checks: ['rate==1'],
  },
};
const ok = (r) => check(r, { 'is 200': (x) => x.status === 200 });
export function smoke() { ok(http.get(`${__ENV.BASE}/`)); }
export function browse() { ok(http.get(`${__ENV.BASE}/text`)); sleep(0.15); }
export function api() { ok(http.get(`${__ENV.BASE}/json`)); }
