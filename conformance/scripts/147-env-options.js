// Options for HTTP by environment.
//
// area: options: precedence
// covers: K6_DISCARD_RESPONSE_BODIES; K6_MAX_REDIRECTS; K6_NO_COOKIES_RESET; K6_SUMMARY_TREND_STATS
// covers: K6_THROW
// env: K6_DISCARD_RESPONSE_BODIES=true K6_MAX_REDIRECTS=0 K6_NO_COOKIES_RESET=true K6_SUMMARY_TREND_STATS=avg,p(70) K6_SYSTEM_TAGS=status K6_INSECURE_SKIP_TLS_VERIFY=true
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2, thresholds: { http_req_duration: ['avg<9000'] } };
export default function () {
  say('K6_DISCARD_RESPONSE_BODIES', http.get(`${__ENV.BASE}/`).body);
  say('K6_MAX_REDIRECTS', http.get(`${__ENV.BASE}/redirect/1`).status);
  say('K6_NO_COOKIES_RESET', http.get(`${__ENV.BASE}/cookies`, { responseType: 'text' }).body);
  http.get(`${__ENV.BASE}/cookies/set?seen=${__ITER}`);
  say('tls', http.get(`${__ENV.TLS_BASE}/`).status);
}
