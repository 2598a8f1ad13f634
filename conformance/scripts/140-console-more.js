// console with errors, cycles, and values in groups.
//
// area: console
// covers: console of errors; console of cyclic objects; console functions
// compare: lines
// without: results
export default function () {
  console.log('RESULT', new Error('message'));
  const cycle = { name: 'c' };
  cycle.self = cycle;
  console.log('RESULT cycle', cycle);
  console.log('RESULT nested', { f: () => 1, u: undefined, d: new Date(0), n: null });
  console.log('RESULT keys', Object.keys(console).sort().join(','));
  console.log('RESULT bigint', String(10n));
  console.log('RESULT wrapped', new String('x'), new Number(5));
  console.log('RESULT class', new (class Thing { constructor() { this.a = 1; } })());
}
