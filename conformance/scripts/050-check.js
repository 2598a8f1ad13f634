// check: several at once, falsy values, plain values, tags, return value.
//
// area: k6: core
// covers: check; check with tags; check of falsy values; checks metric
// compare: points summary
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { thresholds: { 'checks{kind:tagged}': ['rate==0.5'], checks: ['rate<1'] } };
export default function () {
  say('check', check(5, { 'is five': (v) => v === 5, 'is positive': (v) => v > 0 }));
  say('one fails', check(5, { 'is six': (v) => v === 6, 'is five': (v) => v === 5 }));
  say('check of falsy values', [
    '', 0, null, undefined, NaN, false,
  ].map((x) => check(null, { falsy: () => x })));
  say('truthy', ['x', 1, {}, [], '0', Infinity].map((x) => check(null, { truthy: () => x })));
  say('plain values', check(null, { yes: true, no: false, 'empty text': '', number: 3 }));
  say('check with tags', check(
    1, { tagged: () => true, 'tagged not': () => false }, { kind: 'tagged', n: 7 }
  ));
  say('no checks', check(1, {}));
  say('methods', check('abc', { 'has b'(v) { return v.includes('b'); } }));
  say('unicode', check(1, { 'grüße ☃': () => true }));
}
