// With options.throw a failed request ends the iteration.
//
// area: k6/http: errors
// covers: options.throw
// compare: errors
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { throw: true, iterations: 2 };
export default function () {
  say('before', __ITER);
  http.get('http://127.0.0.1:1/');
  say('after', __ITER);
}
