// The WebCrypto global.
//
// area: modules that Volley does not have
// covers: crypto.subtle; crypto.randomUUID; crypto.getRandomValues
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default async function () {
  say('crypto.randomUUID', crypto.randomUUID().length);
  say('crypto.getRandomValues', crypto.getRandomValues(new Uint8Array(4)).length);
  const digest = await crypto.subtle.digest('SHA-256', new Uint8Array([1, 2, 3]));
  say('crypto.subtle', new Uint8Array(digest)[0]);
}
