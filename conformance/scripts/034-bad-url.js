// Addresses that cannot be used.
//
// area: k6/http: errors
// covers: bad URL; error_code 1020; options.throw
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const urls = [
    'no-scheme', 'http://', 'ftp://127.0.0.1/', 'http://127.0.0.1:99999/', 'http://bad host/',
    '/relative', '',
  ];
  for (const url of urls) {
    try {
      const r = http.get(url);
      say('bad URL ' + url, [r.status, r.error_code]);
    } catch (e) { say('bad URL ' + url, 'thrown'); }
  }
  try { http.get(); say('none', 'sent'); } catch (e) { say('none', 'thrown'); }
  try {
    http.get('http://127.0.0.1:1/', { throw: true });
    say('throw', 'no');
  } catch (e) { say('throw', 'yes'); }
  try {
    http.get(`${__ENV.BASE}/delay/2000`, { throw: true, timeout: 100 });
    say('throw timeout', 'no');
  } catch (e) { say('throw timeout', 'yes'); }
  say('after', http.get(`${__ENV.BASE}/`).status);
}
