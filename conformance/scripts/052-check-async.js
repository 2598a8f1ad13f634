// check with an async predicate is refused; after await it works.
//
// area: k6: core
// covers: check with an async function; check after await
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default async function () {
  try {
    check(1, { later: async () => false });
    say('check with an async function', 'taken');
  } catch (e) { say('check with an async function', 'thrown'); }
  const value = await Promise.resolve(3);
  say('check after await', check(value, { three: (v) => v === 3 }));
}
