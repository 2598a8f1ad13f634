// noConnectionReuse opens a connection for each request.
//
// area: k6/http: connections
// covers: options.noConnectionReuse
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2, noConnectionReuse: true };
export default function () {
  say(
    'options.noConnectionReuse', [1, 2].map(() => http.get(`${__ENV.BASE}/`).timings.connecting > 0)
  );
  say('header', http.get(`${__ENV.BASE}/echo`).json('headers.connection'));
}
