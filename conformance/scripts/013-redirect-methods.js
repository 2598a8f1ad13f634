// What becomes of method and body when a POST is redirected.
//
// area: k6/http: redirects
// covers: 301 after POST; 302 after POST; 303 after POST; 307 after POST; 308 after POST
// covers: headers across redirects
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  for (const status of [301, 302, 303, 307, 308]) {
    const res = http.post(`${__ENV.BASE}/redirect-here/${status}/echo`, 'body', {
      headers: { 'X-Kept': 'yes', 'Content-Type': 'text/plain' },
    });
    const e = res.json();
    say(`${status} after POST`, [
      res.status, e.method, e.body, e.headers['x-kept'], e.headers['content-type'],
      res.request.method,
    ]);
  }
  const put = http.put(`${__ENV.BASE}/redirect-here/302/echo`, 'body').json();
  say('302 after PUT', [put.method, put.body]);
  const head = http.head(`${__ENV.BASE}/redirect-here/302/echo`);
  say('302 after HEAD', head.request.method);
  const referer = http.get(`${__ENV.BASE}/redirect-here/302/echo`).json('headers.referer');
  say('referer', referer === undefined ? 'none' : referer);
}
