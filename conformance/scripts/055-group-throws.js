// An exception inside a group ends the group and the iteration.
//
// area: k6: core
// covers: exception in a group; group called without a function
// compare: errors
import { check, group } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  try { group('caught', () => {
    check(1, { seen: () => true });
    throw new Error('inside');
  }); } catch (e) { say('exception in a group', e.message); }
  check(1, { 'after caught': () => true });
  try {
    group('bad');
    say('group called without a function', 'nothing');
  } catch (e) { say('group called without a function', 'thrown'); }
  try { group('a::b', () => {}); say('colons', 'taken'); } catch (e) { say('colons', 'thrown'); }
  try {
    group('async', async () => 1);
    say('async', 'taken');
  } catch (e) { say('async', 'thrown'); }
  group('last', () => { throw new Error('not caught'); });
}
