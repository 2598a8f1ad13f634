// Flags for HTTP on the command line.
//
// area: options: precedence
// covers: --user-agent; --max-redirects; --discard-response-bodies; --insecure-skip-tls-verify
// covers: --throw; --no-connection-reuse; --system-tags; -u and -i
// args: -u 1 -i 2 --user-agent flagged --max-redirects 1 --insecure-skip-tls-verify --no-connection-reuse --batch 3 --batch-per-host 3 --system-tags method,status,scenario
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { userAgent: 'script', maxRedirects: 5 };
export default function () {
  say('--user-agent', http.get(`${__ENV.BASE}/echo`).json('headers.user-agent'));
  say('--max-redirects', http.get(`${__ENV.BASE}/redirect/3`).status);
  say('--insecure-skip-tls-verify', http.get(`${__ENV.TLS_BASE}/`).status);
  say('--no-connection-reuse', [1, 2].map(() => http.get(`${__ENV.BASE}/`).timings.connecting > 0));
}
