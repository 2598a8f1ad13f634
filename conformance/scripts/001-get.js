// A plain GET and what its answer holds.
//
// area: k6/http: requests
// covers: http.get; Response.status; Response.status_text; Response.body; Response.url
// covers: Response.proto; Response.remote_ip; Response.error; Response.error_code; Response.headers
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const BASE = __ENV.BASE;
export default function () {
  const res = http.get(`${BASE}/`);
  say('http.get', res.status);
  say('Response.status_text', res.status_text);
  say('Response.body', [typeof res.body, res.body]);
  say('Response.url', res.url === `${BASE}/`);
  say('Response.proto', res.proto);
  say('Response.remote_ip', [res.remote_ip, typeof res.remote_port]);
  say('Response.error', [res.error, res.error_code]);
  say('Response.headers', [
    res.headers['Content-Type'], res.headers['content-type'], res.headers['Content-Length'],
  ]);
  say('tls', [res.tls_version, res.tls_cipher_suite, JSON.stringify(res.ocsp)]);
  say('keys', Object.keys(res).sort());
  const missing = http.get(`${BASE}/nowhere`);
  say('404', [
    missing.status, missing.status_text, missing.error, missing.error_code, missing.body,
  ]);
  const failed = http.get(`${BASE}/status/503`);
  say('503', [failed.status, failed.status_text, failed.error, failed.error_code]);
  say('299', http.get(`${BASE}/reason`).status_text);
}
