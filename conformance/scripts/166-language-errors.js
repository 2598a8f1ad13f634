// Errors: names, causes, stacks, finally, custom classes.
//
// area: language
// covers: error names; error cause; error stack; custom errors; AggregateError
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
class Own extends Error { constructor(m, code) { super(m); this.name = 'Own'; this.code = code; } }
export default function () {
  const attempt = (f) => { try { f(); return 'nothing'; } catch (e) { return e.name; } };
  say('error names', [
    attempt(() => null.x), attempt(() => undefinedName), attempt(() => { const c = 1; c = 2; }),
    attempt(() => new Array(-1)), attempt(() => decodeURIComponent('%')),
    attempt(() => 'x'.repeat(-1)), attempt(() => ({}).f()),
    attempt(() => new (class { constructor() { new.target.y.z; } })()),
    attempt(() => Symbol() + ''), attempt(() => BigInt(1.5)), attempt(() => new RegExp('(')),
    attempt(() => JSON.parse('{')),
  ]);
  const e = new Error('outer', { cause: new Own('inner', 7) });
  say('error cause', [
    e.cause.name, e.cause.code, e.cause instanceof Own, e.cause instanceof Error, String(e),
    String(e.cause),
  ]);
  say('error stack', [
    typeof e.stack, e.stack.includes('166-language-errors.js'),
    /166-language-errors\.js:18:/.test(e.stack),
  ]);
  say('AggregateError', [new AggregateError([1, 2], 'm').errors.length]);
  say('thrown values', (() => { try { throw { plain: 1 }; } catch (x) { return x; } })());
  say('tdz', attempt(() => { later; let later = 1; }));
}
