// K6_ variables are options too; they win over the script, flags win over them.
//
// area: options: precedence
// covers: K6_VUS; K6_ITERATIONS; environment over script; flag over environment
// env: K6_VUS=3 K6_ITERATIONS=6 K6_USER_AGENT=from-env K6_TAGS=a:1 PLAIN=visible
// args: --iterations 4
// order: any
// compare: points
import http from 'k6/http';
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { vus: 1, iterations: 1, userAgent: 'from-script' };
export default function () {
  say('agent', http.get(`${__ENV.BASE}/echo`).json('headers.user-agent'));
  say('env', [__ENV.PLAIN, __ENV.K6_VUS, exec.instance.vusInitialized]);
}
