// The jar is empty at the start of each iteration.
//
// area: k6/http: cookies
// covers: jar reset per iteration
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2 };
export default function () {
  say('before', http.get(`${__ENV.BASE}/cookies`).json('cookie'));
  http.get(`${__ENV.BASE}/cookies/set?seen=${__ITER}`);
  say('after', http.get(`${__ENV.BASE}/cookies`).json('cookie'));
}
