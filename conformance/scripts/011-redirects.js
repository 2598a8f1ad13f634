// Redirects are followed; the answer is the last one.
//
// area: k6/http: redirects
// covers: redirect followed; relative redirect; redirect to another host name
// covers: Response.url after a redirect
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const brief = (res) => [res.status, res.url, res.body];
  say('redirect followed', brief(http.get(`${B}/redirect/3`)));
  const relative = http.get(`${B}/redirect-relative`);
  say('relative redirect', [relative.status, relative.url, relative.json('query')]);
  say('to', brief(http.get(`${B}/redirect-to/302?url=${encodeURIComponent(B + '/text')}`)));
  const hops = http.get(`${B}/redirect/2`);
  say('timings', [hops.timings.duration > 0, hops.request.method, hops.request.url]);
}
