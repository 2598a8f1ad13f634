// HTTP/2 is used where the server offers it.
//
// area: k6/http: TLS
// covers: HTTP/2 by ALPN; Response.proto HTTP/2.0
// needs: http2
// compare: points
import http from 'k6/http';
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  insecureSkipTLSVerify: true, iterations: 2,
  thresholds: { 'http_reqs{proto:HTTP/2.0}': ['count==14'] },
};
export default function () {
  const B = __ENV.HTTP2_BASE;
  const res = http.get(`${B}/echo`);
  say('HTTP/2 by ALPN', [res.status, res.proto]);
  say('headers', [res.headers['Content-Type'], res.headers['content-type']]);
  say('post', http.post(
    `${B}/echo`, JSON.stringify({ a: 1 }), { headers: { 'Content-Type': 'application/json' } }
  ).json('body'));
  const many = http.batch([1, 2, 3, 4].map((n) => [
    'GET', `${B}/delay/50?n=${n}`, null, { tags: { name: 'many' } },
  ]));
  check(many, { 'all came': (m) => m.every((r) => r.status === 200 && r.proto === 'HTTP/2.0') });
  say('missing', http.get(`${B}/status/404`).status);
}
