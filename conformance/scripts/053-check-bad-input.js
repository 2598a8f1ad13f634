// check with input that it cannot use.
//
// area: k6: core
// covers: check with bad input
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const cases = {
    none: [], one: [1], nothing: [1, null], undef: [1, undefined], list: [1, [() => true]],
  };
  for (const [name, args] of Object.entries(cases)) {
    try { say(name, check(...args)); } catch (e) { say(name, 'thrown'); }
  }
  try {
    check(1, { 'with :: colons': () => true });
    say('colons', 'taken');
  } catch (e) { say('colons', 'thrown'); }
}
