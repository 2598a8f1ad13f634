// Recursion that ends: a thousand calls deep.
//
// area: language
// covers: deep recursion
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1));
  say('deep recursion', [depth(1000), depth(3000)]);
  let nested = [];
  for (let i = 0; i < 500; i++) nested = [nested];
  say('nested JSON', JSON.stringify(nested).length);
}
