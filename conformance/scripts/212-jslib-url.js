// URL and URLSearchParams of the url library.
//
// area: jslib
// covers: URL; URLSearchParams
// volley-only: k6 fetches it over HTTPS, which a closed network does not allow
// result: URL ["https:","example.com:8080","example.com","8080","/a/c","?q=1&r=x%20y","#h","https://example.com:8080/a/c?q=1&r=x%20y#h"]
// result: URLSearchParams ["1","a=1&b=2&a=3",["1","3"],false]
// result: append "https://example.com/?x=1&y=2"
import { URL, URLSearchParams } from 'https://jslib.k6.io/url/1.0.0/index.js';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const u = new URL('../c?q=1&r=x%20y#h', 'https://example.com:8080/a/b/d');
  say('URL', [u.protocol, u.host, u.hostname, u.port, u.pathname, u.search, u.hash, u.href]);
  const p = new URLSearchParams([['a', '1'], ['b', '2']]);
  p.append('a', '3');
  say('URLSearchParams', [p.get('a'), p.toString(), p.getAll('a'), p.has('z')]);
  const made = new URL('https://example.com');
  made.searchParams.append('x', 1);
  made.searchParams.append('y', 2);
  say('append', made.toString());
}
