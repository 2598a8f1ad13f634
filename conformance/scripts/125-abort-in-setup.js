// abort in setup: no iteration.
//
// area: k6/execution
// covers: exec.test.abort in setup
// exit: 108
// compare: errors
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export function setup() { say('setup', 'ran'); exec.test.abort(); }
export default function () { say('default', 'must not run'); }
export function teardown() { say('teardown', 'ran'); }
