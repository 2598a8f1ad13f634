// The usual way to send JSON: stringify and a content type.
//
// area: k6/http: requests
// covers: http.post; params.headers; Response.json
import http from 'k6/http';
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const payload = JSON.stringify({ name: 'Ada', list: [1, 2.5, null, true], nested: { a: 'ü' } });
  const res = http.post(`${__ENV.BASE}/echo`, payload, {
    headers: { 'Content-Type': 'application/json', 'X-Request': 'one', Accept: 'application/json' },
  });
  const e = res.json();
  say('body', e.body);
  say('params.headers', [e.headers['content-type'], e.headers['x-request'], e.headers.accept]);
  check(
    res,
    {
      'is 200': (r) => r.status === 200,
      'came back': (r) => JSON.parse(r.json().body).name === 'Ada',
    }
  );
}
