// Timeouts and broken answers behind HTTP/2.
//
// area: k6/http: TLS
// covers: timeout over HTTP/2
// needs: http2
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { insecureSkipTLSVerify: true };
export default function () {
  const res = http.get(`${__ENV.HTTP2_BASE}/delay/2000`, { timeout: 200 });
  say('timeout over HTTP/2', [res.status, res.error_code]);
  say('next', http.get(`${__ENV.HTTP2_BASE}/`).status);
}
