// insecureSkipTLSVerify accepts it, and the answer tells version and cipher.
//
// area: k6/http: TLS
// covers: options.insecureSkipTLSVerify; Response.tls_version; http_req_tls_handshaking
// compare: points
// range: http_req_tls_handshaking.max 0.01..1000
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { insecureSkipTLSVerify: true };
export default function () {
  const res = http.get(`${__ENV.TLS_BASE}/echo`);
  say('options.insecureSkipTLSVerify', [res.status, res.proto]);
  say('Response.tls_version', [
    res.tls_version, typeof res.tls_cipher_suite, res.tls_cipher_suite.startsWith('TLS_'),
  ]);
  say(
    'handshake',
    [res.timings.tls_handshaking > 0, http.get(`${__ENV.TLS_BASE}/`).timings.tls_handshaking]
  );
}
