// Bodies as text, as bytes, or not at all.
//
// area: k6/http: params
// covers: params.responseType; responseType: 'binary'; responseType: 'none'
// covers: options.discardResponseBodies
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { discardResponseBodies: true };
const kind = (res) => [
  res.status, res.body === null ? 'null' : typeof res.body, res.body instanceof ArrayBuffer,
];
export default function () {
  const U = `${__ENV.BASE}/text`;
  say('options.discardResponseBodies', kind(http.get(U)));
  say(
    'params.responseType',
    [...kind(http.get(U, { responseType: 'text' })), http.get(U, { responseType: 'text' }).body]
  );
  const bytes = http.get(`${__ENV.BASE}/bytes/1000`, { responseType: 'binary' });
  say("responseType: 'binary'", [
    ...kind(bytes), bytes.body.byteLength, new Uint8Array(bytes.body)[250],
  ]);
  say("responseType: 'none'", kind(http.get(U, { responseType: 'none' })));
  try {
    say('unknown', kind(http.get(U, { responseType: 'strange' })));
  } catch (e) { say('unknown', e.name); }
  const got = http.batch([['GET', U, null, { responseType: 'text' }], U]);
  say('batch', got.map(kind));
}
