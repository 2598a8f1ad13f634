// The jar of a VU: reading, setting, deleting, clearing.
//
// area: k6/http: cookies
// covers: http.cookieJar; jar.set; jar.cookiesForURL; jar.delete; jar.clear; new http.CookieJar
// covers: params.jar
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const sent = (params) => http.get(`${B}/cookies`, params).json('cookie').split('; ').sort();
  const jar = http.cookieJar();
  jar.set(B, 'plain', 'value');
  jar.set(B, 'full', 'v2', { domain: '127.0.0.1', path: '/r', secure: false, max_age: 600 });
  jar.set(B, 'safe', 'v3', { secure: true });
  say('jar.set', sent());
  say('jar.cookiesForURL', jar.cookiesForURL(`${B}/cookies`));
  http.get(`${B}/cookies/set?server=5`);
  say('http.cookieJar', http.cookieJar().cookiesForURL(B));
  jar.delete(B, 'plain');
  say('jar.delete', sent());
  jar.clear(B);
  say('jar.clear', sent());
  const own = new http.CookieJar();
  own.set(B, 'own', 'yes');
  say('params.jar', sent({ jar: own }));
  http.get(`${B}/cookies/set?into=own`, { jar: own });
  say('new http.CookieJar', [sent({ jar: own }), sent()]);
  try {
    jar.set(B, 'bad', 'x', { expires: 'not a date' });
    say('bad date', 'taken');
  } catch (e) { say('bad date', 'thrown'); }
}
