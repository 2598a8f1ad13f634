// setup runs once, its value reaches every VU and teardown as a copy.
//
// area: lifecycle
// covers: setup; teardown; setup data
// order: any
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { scenarios: { each: {
  executor: 'per-vu-iterations', vus: 2, iterations: 2,
} } };
export function setup() {
  say('setup', [__VU, typeof __ITER, http.get(`${__ENV.BASE}/count/setup`).json('count')]);
  return {
    token: 'abc', list: [1, { deep: true }], nothing: null, skipped: undefined, when: new Date(0),
  };
}
export default function (data) {
  say('setup data', data);
  data.token = 'changed';
  data.list.push(3);
}
export function teardown(data) {
  say('teardown', [__VU, data, http.get(`${__ENV.BASE}/count/teardown`).json('count')]);
}
