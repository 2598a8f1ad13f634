// setResponseCallback in the init part holds for all iterations.
//
// area: k6/http: response callback
// order: any
// covers: http.setResponseCallback in init; http.expectedStatuses with bad input
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 404));
export const options = { vus: 2, iterations: 4, thresholds: { http_req_failed: ['rate==0.5'] } };
export default function () {
  http.get(`${__ENV.BASE}/status/404`);
  http.get(`${__ENV.BASE}/status/500`);
  for (const bad of ['200', { min: 1 }, null]) {
    try { http.expectedStatuses(bad); say('bad', 'taken'); } catch (e) { say('bad', 'thrown'); }
  }
}
