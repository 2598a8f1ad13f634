// Headers in all their forms, and what is sent by default.
//
// area: k6/http: params
// covers: params.headers; Host header; options.userAgent; default headers
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { userAgent: 'conformance/1' };
export default function () {
  const U = `${__ENV.BASE}/echo`;
  const seen = (params) => http.get(U, params).json('headers');
  const usual = seen({});
  say('default headers', Object.keys(usual).sort());
  say('options.userAgent', usual['user-agent']);
  say('own agent', seen({ headers: { 'User-Agent': 'mine' } })['user-agent']);
  say('number', seen({ headers: { 'X-N': 5, 'X-B': true } }));
  say('Host header', seen({ headers: { Host: 'other.example' } }).host);
  say('accept-encoding', usual['accept-encoding'] || 'none');
  say('null params', http.get(U, null).status);
  say('unknown param', http.get(U, { nonsense: 1 }).status);
  say('length', http.post(
    U, 'abc', { headers: { 'Content-Length': '3' } }
  ).json('headers.content-length'));
}
