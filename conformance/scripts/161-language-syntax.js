// Modern syntax in one place.
//
// area: language
// covers: optional chaining; nullish coalescing; spread; destructuring; template literals
// covers: tagged templates; labelled loops; generators; logical assignment; numeric separators
// covers: exponent
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const tag = (parts, ...values) => parts.raw.join('|') + values.join(',');
function* fib() { let [a, b] = [0, 1]; for (;;) {
  const reset = yield a;
  [a, b] = reset ? [0, 1] : [b, a + b];
} }
export default function () {
  const o = { a: { b: [1, { c: 'deep' }] }, f: null };
  say('optional chaining', [o?.a?.b?.[1]?.c, o.x?.y.z, o.f?.(), o.a.g?.()]);
  say('nullish coalescing', [null ?? 1, 0 ?? 1, '' || 'or', undefined ?? null ?? 'last']);
  const { a: { b: [first, ...rest] }, missing = 'default', ...others } = o;
  say('destructuring', [first, rest, missing, others]);
  say('spread', [
    [...'añ𝄞'], Math.max(...[1, 5, 3]), { ...o.a, extra: 1 },
    ((...args) => args.length)(...[1, 2], 3),
  ]);
  say('tagged templates', tag`x\n${1}y${2}`);
  say('template literals', `a${`b${'c'}`}d`);
  let log = '';
  outer: for (const i of [1, 2, 3]) { for (const j of [1, 2, 3]) {
    if (j === 2) continue outer;
    if (i === 3) break outer;
    log += `${i}${j} `;
  } }
  say('labelled loops', log);
  const g = fib();
  say('generators', [
    g.next().value, g.next().value, g.next().value, g.next().value, g.next(true).value,
    g.return(9).value, g.next().done,
  ]);
  let x = null; x ??= 5; let y = 1; y &&= 7; let z = 0; z ||= 8;
  say('logical assignment', [x, y, z]);
  say('numeric separators', [1_000_000, 0b101, 0o17, 0xff, 2 ** 10, .5, 1e3]);
  say('comma and void', [(1, 2), void 0 === undefined, typeof undeclared]);
  const fn = function named(n) { return n < 2 ? 1 : n * named(n - 1); };
  say('closures', [fn(5), fn.name, fn.length, ((a, b = 1, ...c) => 0).length]);
  switch (3) {
    case 1: say('switch', 1);
    case 3: say('switch', 3);
    case 4: say('switch', 4);
    break;
    default: say('switch', 'd');
  }
  try { try { throw 1; } finally { log = 'finally'; } } catch { log += ' optional binding'; }
  say('try', log);
  say('strict', (function () { return this === undefined; })());
  var { length } = 'hello'; say('var', [length, typeof hoisted]); function hoisted() {}
}
