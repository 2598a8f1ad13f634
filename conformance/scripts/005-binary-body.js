// Bytes as body, from an ArrayBuffer and from a file.
//
// area: k6/http: bodies
// covers: ArrayBuffer body; typed array body; open(path, 'b')
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const file = open('./data/bytes.bin', 'b');
export default function () {
  const U = `${__ENV.BASE}/echo`;
  const brief = (res) => [
    res.status, res.json('bytes'), res.json('headers.content-type'),
    res.json('headers.content-length'),
  ];
  say("open(path, 'b')", [file instanceof ArrayBuffer, file.byteLength]);
  say('ArrayBuffer body', brief(http.post(U, file)));
  const small = new Uint8Array([0, 1, 2, 253, 254, 255]);
  say('ArrayBuffer body small', brief(http.post(U, small.buffer)));
  say('with type', brief(http.put(
    U, small.buffer, { headers: { 'Content-Type': 'application/octet-stream' } }
  )));
}
