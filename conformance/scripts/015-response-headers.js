// Headers of an answer: canonical names, repeated ones joined.
//
// area: k6/http: response
// covers: Response.headers; repeated headers
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const h = http.get(`${__ENV.BASE}/headers`).headers;
  say('Response.headers', Object.keys(h).sort());
  say('case', [h['X-One'], h['x-one'], h['X-Mixed-Case'], h.Etag, h.ETag]);
  say('repeated headers', h['X-Twice']);
  say('empty', h['X-Empty']);
  say('type', h['Content-Type']);
}
