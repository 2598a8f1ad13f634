// Promises and async functions in all combinations.
//
// area: language
// covers: Promise; async and await; Promise.allSettled; Promise.any; async generators
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const wait = (ms, v) => new Promise((r) => setTimeout(r, ms, v));
export default async function () {
  say('Promise', await Promise.all([1, wait(10, 2), Promise.resolve(3)]));
  say('Promise.allSettled', await Promise.allSettled([wait(1, 'a'), Promise.reject('b')]));
  try {
    say('Promise.any', await Promise.any([Promise.reject(1), wait(5, 'won')]));
  } catch (e) { say('Promise.any', e.name); }
  try {
    await (async () => { throw new TypeError('x'); })();
  } catch (e) { say('async throw', [e.name, e.message]); } finally { say('finally', 1); }
  const order = [];
  const a = (async () => { order.push(1); await null; order.push(4); })();
  order.push(2);
  queue(() => order.push(3));
  await a;
  say('order', order.length);
  function queue(f) { Promise.resolve().then(f); }
}
