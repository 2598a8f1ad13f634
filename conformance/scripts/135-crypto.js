// Digests and HMACs in every encoding.
//
// area: k6/crypto
// covers: crypto.md5; crypto.sha256; crypto.hmac; crypto.createHash; crypto.createHMAC
// covers: crypto.randomBytes
import crypto from 'k6/crypto';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  for (const name of [
    'md4', 'md5', 'sha1', 'sha256', 'sha384', 'sha512', 'sha512_224', 'sha512_256', 'ripemd160',
  ]) say(`crypto.${name}`, crypto[name]('grüße', 'hex'));
  say('outputs', ['hex', 'base64', 'base64url', 'base64rawurl'].map((o) => crypto.sha256('?>', o)));
  const raw = crypto.md5('x', 'binary');
  say('binary', [raw instanceof ArrayBuffer, Array.from(new Uint8Array(raw)).slice(0, 4)]);
  for (const name of [
    'md5', 'sha1', 'sha256', 'sha384', 'sha512',
  ]) say(`crypto.hmac ${name}`, crypto.hmac(name, 'key', 'data', 'hex'));
  const h = crypto.createHash('sha256');
  h.update('gr'); h.update('üße'); h.update(new Uint8Array([1, 2]).buffer);
  say('crypto.createHash', [h.digest('hex'), h.digest('base64')]);
  const m = crypto.createHMAC('sha1', 'key');
  m.update('data');
  say('crypto.createHMAC', m.digest('hex'));
  say('bytes key', crypto.hmac(
    'sha256', new Uint8Array([1, 2, 3]).buffer, new Uint8Array([4]).buffer, 'hex'
  ));
  say(
    'crypto.randomBytes',
    [crypto.randomBytes(12) instanceof ArrayBuffer, crypto.randomBytes(12).byteLength]
  );
  const attempt = (f) => { try { f(); return 'taken'; } catch (e) { return 'thrown'; } };
  say('bad', [
    attempt(() => crypto.md5('x', 'strange')), attempt(() => crypto.randomBytes(0)),
    attempt(() => crypto.randomBytes(-1)),
  ]);
  say('keys', Object.keys(crypto).sort());
}
