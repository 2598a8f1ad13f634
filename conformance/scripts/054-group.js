// Groups: nesting, return values, checks inside, repeated names, durations.
//
// area: k6: core
// covers: group; nested groups; group returns a value; group_duration; group tag
// compare: points summary
import http from 'k6/http';
import { check, group } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  iterations: 2,
  thresholds: {
    'group_duration{group:::outer::inner}': ['max<5000'], 'http_reqs{group:::outer}': ['count==2'],
  },
};
export default function () {
  const value = group('outer', () => {
    http.get(`${__ENV.BASE}/`);
    check(1, { 'in outer': () => true });
    return group('inner', () => {
      http.get(`${__ENV.BASE}/echo`);
      check(1, { 'in inner': (v) => v === 2 });
      return { deep: 42 };
    });
  });
  say('group returns a value', value);
  group('outer', function () { check(1, { 'in outer': () => false }); });
  say('undefined', group('empty', () => {}) === undefined);
  check(1, { outside: () => true });
}
