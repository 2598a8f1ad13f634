// Cookies that the server sets, and how the answer shows them.
//
// area: k6/http: cookies
// covers: Response.cookies; Set-Cookie kept; cookie attributes; cookies across redirects
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const res = http.get(`${B}/cookies/attributes`);
  say('Response.cookies', Object.keys(res.cookies).sort());
  for (const name of Object.keys(res.cookies).sort()) {
    const c = res.cookies[name][0];
    say('cookie attributes ' + name, [
      Object.keys(c).sort(), c.name, c.value, c.domain, c.path, c.http_only, c.secure, c.max_age,
      typeof c.expires, name === 'dated' ? c.expires : 0,
    ]);
  }
  const sent = (path) => http.get(B + path).json('cookie').split('; ').sort();
  say('Set-Cookie kept', sent('/cookies'));
  say('elsewhere', http.get(`${B}/echo`).json('headers.cookie'));
  const hop = http.get(`${B}/cookies/set-redirect?hop=1`);
  say('cookies across redirects', [hop.json('cookie').split('; ').sort(), hop.cookies]);
}
