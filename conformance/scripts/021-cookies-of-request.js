// Cookies that a request brings along, alone and beside the jar's.
//
// area: k6/http: cookies
// covers: params.cookies; cookies with replace
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const sent = (params) => http.get(`${B}/cookies`, params).json('cookie').split('; ').sort();
  say('params.cookies', sent({ cookies: { a: '1', b: 'two' } }));
  say('not kept', sent({}));
  http.get(`${B}/cookies/set?a=jar&c=jar`);
  say('from jar', sent({}));
  say('beside', sent({ cookies: { d: '4' } }));
  say('same name', sent({ cookies: { a: 'mine' } }));
  say('cookies with replace', sent({ cookies: { a: { value: 'mine', replace: true } } }));
  say('header', sent({ headers: { Cookie: 'h=1' } }));
}
