// TLS with a certificate that nobody signed: refused.
//
// area: k6/http: TLS
// covers: unknown certificate authority; error_code 1310
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const res = http.get(`${__ENV.TLS_BASE}/`);
  say('unknown certificate authority', [res.status, res.error_code, res.body]);
  say('plain on TLS port', http.get(`${__ENV.TLS_BASE.replace('https', 'http')}/`).status);
  const wrong = http.get(`${__ENV.BASE.replace('http', 'https')}/`);
  say('TLS on plain port', [wrong.status, wrong.error_code]);
}
