// --log-format json.
//
// area: console
// covers: --log-format json
// args: --log-format json
// compare: lines
// without: results
export default function () {
  console.log('RESULT plain');
  console.warn('RESULT "quoted"', { a: 1 });
  console.error('RESULT error');
}
