// Packed answers are unpacked; request bodies can be packed.
//
// area: k6/http: params
// covers: gzip answers; deflate answers; params.compression
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const packed = http.get(`${B}/gzip`);
  say('gzip answers', [
    packed.json('packed'), packed.body.length, packed.headers['Content-Encoding'],
  ]);
  say('deflate answers', http.get(`${B}/deflate`).json('packed'));
  say('asked', http.get(`${B}/gzip`, { headers: { 'Accept-Encoding': 'gzip' } }).json('packed'));
  for (const compression of ['gzip', 'deflate', 'gzip, deflate']) {
    const res = http.post(`${B}/unpack`, 'x'.repeat(50), { compression });
    say(`params.compression ${compression}`, res.json());
  }
  try {
    http.post(`${B}/unpack`, 'x', { compression: 'lzma' });
    say('bad', 'sent');
  } catch (e) { say('bad', 'thrown'); }
}
