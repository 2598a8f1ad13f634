// Base64 in all variants.
//
// area: k6/encoding
// covers: encoding.b64encode; encoding.b64decode
import encoding, { b64encode, b64decode } from 'k6/encoding';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  for (const v of ['std', 'rawstd', 'url', 'rawurl', undefined]) {
    const packed = b64encode('a?>~ grüße', v);
    say(`encoding.b64encode ${v}`, [packed, b64decode(packed, v, 's')]);
  }
  const bytes = new Uint8Array([0, 255, 128, 7]);
  say('bytes', b64encode(bytes.buffer));
  say('encoding.b64decode', Array.from(new Uint8Array(b64decode('AP+ABw=='))));
  say('kinds', [
    b64decode('aGk=', 'std', 's'), b64decode('aGk=') instanceof ArrayBuffer,
    b64decode('aGk=').byteLength,
  ]);
  say('empty', [b64encode(''), b64decode('', 'std', 's')]);
  say('default', typeof encoding.b64encode);
  try { b64decode('***'); say('bad', 'taken'); } catch (e) { say('bad', 'thrown'); }
  say('basic', `Basic ${b64encode('user:pass')}`);
}
