// With noCookiesReset the jar stays, and each VU has its own.
//
// area: k6/http: cookies
// covers: options.noCookiesReset; jar per VU
// order: any
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  noCookiesReset: true,
  scenarios: { s: { executor: 'per-vu-iterations', vus: 2, iterations: 2 } },
};
export default function () {
  say('before', [__VU, __ITER, http.get(`${__ENV.BASE}/cookies`).json('cookie')]);
  http.get(`${__ENV.BASE}/cookies/set?vu=${__VU}`);
}
