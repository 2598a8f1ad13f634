// Connections that close early, bodies cut short, answers that are no HTTP.
//
// area: k6/http: errors
// covers: closed connection; cut body; malformed answer; chunked answer
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const brief = (path) => {
    const r = http.post(__ENV.BASE + path, 'x');
    return [r.status, r.error_code];
  };
  say('closed connection', brief('/close'));
  say('cut body', brief('/cut'));
  say('malformed answer', brief('/garbage')[0]);
  say('chunked answer', http.get(`${__ENV.BASE}/chunked`).body);
  say('after', http.get(`${__ENV.BASE}/`).status);
}
