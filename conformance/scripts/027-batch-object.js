// http.batch with an object keeps its keys.
//
// area: k6/http: batch and async
// covers: http.batch({...})
import http from 'k6/http';
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const got = http.batch({
    front: `${B}/`,
    api: { method: 'POST', url: `${B}/echo`, body: 'hi' },
    image: ['GET', `${B}/bytes/100`, null, { responseType: 'binary' }],
    refused: 'http://127.0.0.1:1/',
  });
  say('http.batch({...})', Object.keys(got).sort());
  say('answers', [
    got.front.body, got.api.json('body'), got.image.body.byteLength, got.refused.status,
    got.refused.error_code,
  ]);
  check(got.front, { 'front is 200': (r) => r.status === 200 });
  say('null', http.batch({}).front === undefined);
}
