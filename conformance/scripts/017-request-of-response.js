// res.request shows what was sent.
//
// area: k6/http: response
// covers: Response.request
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const res = http.post(
    `${__ENV.BASE}/echo`, 'abc', { headers: { 'X-A': '1' }, cookies: { c: 'v' } }
  );
  const r = res.request;
  say('Response.request', Object.keys(r).sort());
  say('fields', [r.method, r.url, r.body]);
  say('headers', [r.headers['X-A'], Object.keys(r.headers).sort()]);
  say('cookies', r.cookies);
}
