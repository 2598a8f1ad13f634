// Arrays, objects, JSON.
//
// area: language
// covers: array functions; sort is stable; Object functions; JSON.stringify; JSON.parse
// covers: newer array functions
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  say('array functions', [
    [3, 1, 2].sort(), [1, [2, [3, [4]]]].flat(Infinity), [1, 2].flatMap((x) => [x, x * 2]),
    [1, 2, 3].includes(2), Array.from({ length: 3 }, (_, i) => i * i), Array.of(7).length,
    [1, 2, 3].fill(0, 1), [1, 2, 3, 4].copyWithin(0, 2), [..."ab"].entries().next().value,
    [1, , 3].length, [3, 2, 1].findLast((x) => x > 1), [1, 2, 3].reduceRight((a, b) => a + '-' + b),
    [1, 2, 3].at(-1), [5, 1, 10].sort((a, b) => a - b), [, 1].indexOf(undefined),
  ]);
  const list = Array.from({ length: 40 }, (_, i) => ({ i, k: i % 3 }));
  say('sort is stable', list.sort((a, b) => a.k - b.k).map((x) => x.i).join());
  say('Object functions', [
    Object.entries({ b: 1, a: 2, 1: 'x' }), Object.assign({}, null, { a: 1 }),
    Object.freeze([1]).length, Object.isFrozen(Object.freeze({})), Object.is(NaN, NaN),
    Object.getOwnPropertyNames('ab'), Object.hasOwn({ a: 1 }, 'a'),
    Object.fromEntries(new Map([['m', 1]])),
  ]);
  say('JSON.stringify', [
    JSON.stringify({
      u: undefined, f() {}, n: NaN, d: new Date(0), s: 'q"\u2028\ud800',
      nested: [undefined, () => 1],
    }),
    JSON.stringify({ a: 1, b: [1] }, null, 2), JSON.stringify([1], null, '--'),
    JSON.stringify({ a: 1, b: 2 }, ['b']), JSON.stringify({ toJSON: () => 'own' }),
    JSON.stringify(undefined) === undefined, JSON.stringify(-0),
    JSON.stringify({ [Symbol('x')]: 1 }), JSON.stringify(Object.create({ inherited: 1 })),
  ]);
  const attempt = (t) => { try { return JSON.parse(t); } catch (e) { return e.name; } };
  say('JSON.parse', [
    '{"a":1,}', '01', "{'a':1}", '1e3', '"\\u00fc"', ' [1 , 2] ', '', 'undefined',
    '{"__proto__":1}', '{"a":1,"a":2}', 'NaN', '1.', '-0',
  ].map(attempt));
  say('reviver', JSON.parse('{"a":[1,2]}', (k, v) => (typeof v === 'number' ? v * 2 : v)));
  const has = (o, names) => names.filter((n) => typeof o[n] !== 'function');
  say('newer array functions missing', has(Array.prototype, [
    'toSorted', 'toReversed', 'with', 'findLastIndex', 'at', 'flat', 'toSpliced',
  ]));
  say('missing in Object', has(Object, [
    'groupBy', 'hasOwn', 'fromEntries', 'getOwnPropertyDescriptors',
  ]));
  say('missing in String', has(String.prototype, [
    'isWellFormed', 'replaceAll', 'at', 'matchAll', 'trimEnd', 'codePointAt',
  ]));
  say('missing in Promise', has(Promise, ['any', 'allSettled', 'withResolvers', 'race']));
  say('missing in Set', has(Set.prototype, ['union', 'intersection', 'has']));
}
