// SharedArray: made once, read by all, never changed.
//
// area: k6/data
// covers: SharedArray; SharedArray methods; SharedArray is frozen; JSON of a SharedArray
import { SharedArray } from 'k6/data';
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const users = new SharedArray('users', () => JSON.parse(open('./data/users.json')));
const numbers = new SharedArray('numbers', function () { return [3, 'x', null, [1, 2], true]; });
export default function () {
  say('SharedArray', [users.length, users[0], users[1].user, users[users.length - 1].n]);
  say('missing index', [
    users[3] === undefined, users[-1] === undefined, users['x'] === undefined,
    users[1.5] === undefined,
  ]);
  say('numbers', [numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]]);
  say('SharedArray methods', [
    users.map((u) => u.n), users.filter((u) => u.n > 1).length,
    users.find((u) => u.user === 'bob').n, users.reduce((a, u) => a + u.n, 0),
    users.some((u) => u.n === 2), users.findIndex((u) => u.n === 3), users.slice(1).length,
    users.indexOf('x'), numbers.includes('x'), numbers.join('-'),
  ]);
  let sum = 0;
  for (const u of users) sum += u.n;
  let keys = '';
  for (const k in users) keys += k;
  say('loops', [sum, keys, [...users].length]);
  users.forEach((u, i) => { sum += i; });
  say('forEach', sum);
  say('isArray', [Array.isArray(users), users instanceof Array, typeof users, Object.keys(users)]);
  say('JSON of a SharedArray', JSON.stringify(users));
  const attempt = (name, f) => { try { f(); return 'silent'; } catch (e) { return e.name; } };
  say('SharedArray is frozen', [
    attempt('set', () => { users[0] = 1; }), attempt('push', () => users.push(1)),
    attempt('item', () => { users[0].n = 9; }), users[0].n, users.length,
  ]);
  say('copies', users[0] === users[0]);
}
