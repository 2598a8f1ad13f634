// abort in the init part.
//
// area: k6/execution
// covers: exec.test.abort in init
// exit: 108
// without: results
// compare: errors
import exec from 'k6/execution';
exec.test.abort('not today');
export default function () { console.log('RESULT default must not run'); }
