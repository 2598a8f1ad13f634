// Connections are kept within an iteration; noConnectionReuse opens one per request.
//
// area: k6/http: connections
// covers: keep-alive; options.noVUConnectionReuse
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2, noVUConnectionReuse: true };
export default function () {
  const ports = [1, 2, 3].map(() => http.get(`${__ENV.BASE}/`).timings.connecting > 0);
  say('keep-alive', ports);
}
