// Every method function, with and without a body.
//
// area: k6/http: requests
// covers: http.get; http.post; http.put; http.patch; http.del; http.head; http.options
// covers: http.request
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const U = __ENV.BASE + '/echo';
const brief = (res) => {
  const e = res.json();
  return [res.status, e.method, e.body, e.headers['content-type'], e.headers['content-length']];
};
export default function () {
  say('http.post', brief(http.post(U, 'text')));
  say('http.post nothing', brief(http.post(U)));
  say('http.post null', brief(http.post(U, null)));
  say('http.post undefined', brief(http.post(U, undefined)));
  say('http.post empty', brief(http.post(U, '')));
  say('http.put', brief(http.put(U, 'p')));
  say('http.put nothing', brief(http.put(U)));
  say('http.patch', brief(http.patch(U, 'q')));
  say('http.del', brief(http.del(U)));
  say('http.del body', brief(http.del(U, 'd')));
  const head = http.head(U);
  say('http.head', [
    head.status, head.body, typeof head.body, Number(head.headers['Content-Length']) > 0,
  ]);
  say('http.options', brief(http.options(U)));
  say('http.options body', brief(http.options(U, 'o')));
  say('http.request', brief(http.request('POST', U, 'r')));
  say('http.request lower', brief(http.request('put', U, 'r')));
  say('http.request get body', brief(http.request('GET', U, 'b')));
  say('http.request purge', brief(http.request('PURGE', U)));
  say('functions', Object.keys(http).filter((k) => typeof http[k] === 'function').sort());
}
