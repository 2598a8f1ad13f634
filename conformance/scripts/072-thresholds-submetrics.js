// Thresholds on parts of a metric, chosen by tags.
//
// area: thresholds
// covers: sub-metrics by tag; empty threshold shows a sub-metric; sub-metric without samples
// covers: scenario tag
// exit: 99
// compare: summary errors
import http from 'k6/http';
import { check } from 'k6';
export const options = {
  scenarios: {
    first: { executor: 'shared-iterations', iterations: 2 },
    second: { executor: 'shared-iterations', iterations: 3, tags: { team: 'blue' } },
  },
  thresholds: {
    'http_reqs{scenario:first}': ['count==2'], 'http_reqs{scenario:second}': ['count==3'],
    'http_reqs{ status:404 , scenario:second }': ['count==3'], 'http_req_duration{status:200}': [],
    'http_reqs{team:blue}': ['count>=3'], 'iterations{scenario:first}': ['count==2'],
    'checks{check:found}': ['rate>0.9'],
    'http_reqs{name:nothing}': ['count>0'], 'iteration_duration{scenario:second}': [],
    'http_req_failed{expected_response:false}': ['rate==1'],
  },
};
export default function () {
  const res = http.get(`${__ENV.BASE}/status/${__ENV.K || (__VU > 1 ? 404 : 404)}`);
  check(res, { found: (r) => r.status === 200 });
}
