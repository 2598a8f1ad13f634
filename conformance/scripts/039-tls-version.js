// The range of TLS versions that is offered.
//
// area: k6/http: TLS
// covers: options.tlsVersion
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  insecureSkipTLSVerify: true, tlsVersion: { min: 'tls1.2', max: 'tls1.2' },
};
export default function () {
  say('options.tlsVersion', http.get(`${__ENV.TLS_BASE}/`).tls_version);
  say('constants', [http.TLS_1_2, http.TLS_1_3, http.SSL_3_0]);
}
