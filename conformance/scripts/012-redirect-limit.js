// How many redirects are followed: params, option, and zero.
//
// area: k6/http: redirects
// covers: params.redirects; options.maxRedirects; redirects: 0; redirect loop
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { maxRedirects: 4 };
export default function () {
  const B = __ENV.BASE;
  const brief = (res) => [res.status, res.url, res.error, res.error_code, res.headers.Location];
  say('redirects: 0', brief(http.get(`${B}/redirect/2`, { redirects: 0 })));
  say('params.redirects', brief(http.get(`${B}/redirect/3`, { redirects: 2 })));
  say('enough', brief(http.get(`${B}/redirect/4`)));
  say('options.maxRedirects', brief(http.get(`${B}/redirect/6`)));
  say('raised', brief(http.get(`${B}/redirect/6`, { redirects: 10 })));
  say('redirect loop', brief(http.get(`${B}/loop`)));
}
