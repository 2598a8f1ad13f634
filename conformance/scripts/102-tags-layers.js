// Tags of the test, of the scenario, of the VU, of the request: the later wins.
//
// area: options
// covers: options.tags; scenario tags; exec.vu.tags; exec.vu.metrics.tags; options.systemTags
// compare: points
import http from 'k6/http';
import exec from 'k6/execution';
import { check } from 'k6';
import { Counter } from 'k6/metrics';
const c = new Counter('counted');
export const options = {
  tags: { a: 'test', b: 'test', c: 'test', d: 'test' },
  systemTags: ['method', 'status', 'group', 'check', 'scenario', 'iter', 'vu', 'name'],
  scenarios: { s: {
    executor: 'shared-iterations', iterations: 2,
    tags: { b: 'scenario', c: 'scenario', d: 'scenario' },
  } },
};
export default function () {
  exec.vu.metrics.tags.c = 'vu'; exec.vu.tags.d = 'vu'; exec.vu.metrics.tags.n = 5;
  http.get(`${__ENV.BASE}/`, { tags: { d: 'request' } });
  check(1, { yes: () => true }, { d: 'check' });
  c.add(1, { d: 'metric' });
}
