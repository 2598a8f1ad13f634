// exec.test.fail marks the test as failed and lets it run on: exit 110.
//
// area: k6/execution
// covers: exec.test.fail, exit 110
// exit: 110
// compare: errors
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 2 };
export default function () { exec.test.fail('marked'); say('after', __ITER); }
