// A whole script: users from a file, each iteration its own row.
//
// area: whole scripts
// covers: rows by iteration; rows by VU; scenarios with env
// order: any
import http from 'k6/http';
import exec from 'k6/execution';
import { SharedArray } from 'k6/data';
import { b64encode } from 'k6/encoding';
import { check } from 'k6';
const users = new SharedArray('users', () => JSON.parse(open('./data/users.json')));
export const options = { scenarios: {
  logins: {
    executor: 'shared-iterations', vus: 2, iterations: users.length, exec: 'login',
    env: { ROLE: 'user' },
  },
  admins: { executor: 'per-vu-iterations', vus: 1, iterations: 2, exec: 'login', env: { ROLE: 'admin' },
    startTime: '500ms' } } };
export function login() {
  const user = users[exec.scenario.iterationInTest % users.length];
  const res = http.get(
    `${__ENV.BASE}/echo?user=${user.user}&role=${__ENV.ROLE}`,
    { headers: { Authorization: `Basic ${b64encode(`${user.user}:pw`)}` }, tags: { name: 'login' } }
  );
  check(res, { 'same user': (r) => r.json('query.user') === user.user }, { role: __ENV.ROLE });
  console.log(`RESULT ${__ENV.ROLE} ${user.user} ${user.n}`);
}
