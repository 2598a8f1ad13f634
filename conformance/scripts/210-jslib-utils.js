// The k6-utils library: random values and text helpers.
//
// area: jslib
// covers: randomIntBetween; randomItem; randomString; uuidv4; findBetween; normalDistributionStages
// volley-only: k6 fetches it over HTTPS, which a closed network does not allow
// result: randomIntBetween true
// result: randomItem true
// result: randomString [8,true,true]
// result: uuidv4 [36,true,true]
// result: findBetween ["b",["1","2"]]
// result: normalDistributionStages [5,true]
import {
  randomIntBetween, randomItem, randomString, uuidv4, findBetween, normalDistributionStages,
} from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const many = Array.from({ length: 500 }, () => randomIntBetween(3, 6));
  say(
    'randomIntBetween',
    Math.min(...many) === 3 && Math.max(...many) === 6 && many.every(Number.isInteger)
  );
  say('randomItem', [1, 2, 3].includes(randomItem([1, 2, 3])));
  say('randomString', [
    randomString(8).length, /^[a-z]+$/.test(randomString(50)),
    /^[xy]{20}$/.test(randomString(20, 'xy')),
  ]);
  say('uuidv4', [
    uuidv4().length,
    /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuidv4()),
    uuidv4() !== uuidv4(),
  ]);
  say('findBetween', [findBetween('a<b>c', '<', '>'), findBetween('[1][2]', '[', ']', true)]);
  const stages = normalDistributionStages(10, 60, 5);
  say(
    'normalDistributionStages',
    [stages.length, stages.every((s) => 'duration' in s && 'target' in s)]
  );
}
