// randomSeed makes Math.random repeat itself.
//
// area: k6: core
// covers: randomSeed
import { randomSeed } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  randomSeed(42);
  const first = [Math.random(), Math.random()];
  randomSeed(42);
  say('randomSeed', [first[0] === Math.random(), first[1] === Math.random()]);
  say('range', first.every((x) => x >= 0 && x < 1));
}
