// A connection that nobody accepts.
//
// area: k6/http: errors
// covers: connection refused; error_code 1212
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const res = http.get('http://127.0.0.1:1/');
  say('connection refused', [
    res.status, res.error_code, res.error, res.body, res.url, res.status_text, res.proto,
  ]);
  say('timings', [res.timings.duration, res.timings.waiting]);
  say('headers', [Object.keys(res.headers), Object.keys(res.cookies)]);
  try { say('json', [res.json()]); } catch (e) { say('json', 'thrown'); }
  say('post', http.post('http://127.0.0.1:1/', 'x').error_code);
}
