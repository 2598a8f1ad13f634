// An object as body is sent as a form.
//
// area: k6/http: bodies
// covers: object body as form; params.headers
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const brief = (res) => {
  const e = res.json();
  return [
    e.headers['content-type'], e.headers['content-length'], e.form === undefined ? e.body : e.form,
  ];
};
export default function () {
  const U = `${__ENV.BASE}/echo`;
  say('object body as form', brief(http.post(U, { b: '2', a: 'x y&z', 'ü': 'ß' })));
  say('numbers', brief(http.post(U, { n: 1, f: 1.5, yes: true })));
  say('list', brief(http.post(U, { many: ['1', '2'] })));
  say('empty object', brief(http.post(U, {})));
  say('own type', brief(http.post(
    U, { a: 1 }, { headers: { 'Content-Type': 'application/x-www-form-urlencoded;charset=UTF-8' } }
  )));
  say('put', brief(http.put(U, { a: 'b' })));
  say('del', brief(http.del(U, { a: 'b' })));
}
