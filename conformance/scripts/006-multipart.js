// http.file in an object body makes a multipart form.
//
// area: k6/http: bodies
// covers: http.file; multipart body
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const data = open('./data/bytes.bin', 'b');
const text = open('./data/note.txt');
const parts = (res) => res.json('parts').map((p) => [p.headers, p.bytes, p.sha]).sort();
export default function () {
  const U = `${__ENV.BASE}/echo`;
  const f = http.file(data, 'photo.bin', 'image/png');
  say('http.file', [Object.keys(f).sort(), f.filename, f.content_type, typeof f.data]);
  say('defaults', [typeof http.file('x').filename, http.file('x').content_type]);
  const res = http.post(U, { field: 'value', number: 7, file: f });
  say('multipart body', parts(res));
  say('type', res.json('headers.content-type'));
  say('text file', parts(http.post(U, { note: http.file(
    text, 'note.txt', 'text/plain'
  ), a: 'é' })));
  say('string file', parts(http.post(U, { s: http.file('abc', 's"q.txt') })));
}
