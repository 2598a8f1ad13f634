// A request that takes too long ends with status 0 and code 1050.
//
// area: k6/http: params
// covers: params.timeout; error_code 1050
// range: http_req_duration.max 900..3000
// range: iteration_duration.max 1400..4000
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const brief = (res) => [res.status, res.error_code, res.error, res.body, res.status_text];
export default function () {
  say('params.timeout text', brief(http.get(`${__ENV.BASE}/delay/3000`, { timeout: '300ms' })));
  say('params.timeout number', brief(http.get(`${__ENV.BASE}/delay/3000`, { timeout: 1000 })));
  say('in body', brief(http.get(`${__ENV.BASE}/slow-body/3000`, { timeout: 300 })));
  say('enough', http.get(`${__ENV.BASE}/delay/10`, { timeout: '5s' }).status);
}
