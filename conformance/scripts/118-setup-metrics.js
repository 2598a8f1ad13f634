// Samples of setup and teardown carry their own group tag.
//
// area: lifecycle
// covers: metrics in setup and teardown; checks in setup
// compare: points
import http from 'k6/http';
import { check, group } from 'k6';
export function setup() {
  check(http.get(`${__ENV.BASE}/`), { 'setup ok': (r) => r.status === 200 });
}
export default function () { check(1, { 'default ok': () => true }); }
export function teardown() {
  group(
    'cleaning',
    () => check(http.del(`${__ENV.BASE}/echo`), { 'teardown ok': (r) => r.status === 200 })
  );
}
