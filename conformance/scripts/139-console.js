// console: levels, several values, objects, and the form of the lines.
//
// area: console
// covers: console.log; console.info; console.warn; console.error; console.debug; console of objects
// compare: lines errors
// args: --verbose
// without: results
export default function () {
  console.log('RESULT plain');
  console.info('RESULT', 'several', 1, true, null, undefined);
  console.warn('RESULT warn');
  console.error('RESULT error "quoted" back\\slash');
  console.debug('RESULT debug');
  console.log('RESULT object', { a: 1, b: { c: [1, 2] } }, [1, 'x', null]);
  console.log('RESULT number', 1.5, -0, NaN, Infinity, 1e21);
  console.log('RESULT lines\nsecond\ttab');
  console.log('RESULT unicode grüße ☃ 𝄞');
  console.log('RESULT function', () => 1);
  console.log('RESULT date', new Date(0));
  console.log('RESULT map', new Map([[1, 2]]), new Set([1]));
  console.log('RESULT empty', '', {}, []);
  console.log('RESULT typed', new Uint8Array([1, 2]));
  console.log('RESULT symbol', String(Symbol('s')));
  console.log('RESULT percent %s %d', 'x', 5);
}
