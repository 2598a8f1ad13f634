// http.url names a request by its template.
//
// area: k6/http: requests
// covers: http.url
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2, thresholds: { 'http_reqs{method:GET}': [] } };
export default function () {
  const id = 10 + __ITER;
  const res = http.get(http.url`${__ENV.BASE}/echo?id=${id}&x=${'y'}`);
  say('http.url', res.json('query'));
  say('url', res.url);
  say('request', res.request.url);
  http.post(http.url`${__ENV.BASE}/echo/${id}`, 'x', { tags: { name: 'given' } });
  http.batch([http.url`${__ENV.BASE}/echo/b${id}`, ['GET', http.url`${__ENV.BASE}/echo/c${id}`]]);
}
