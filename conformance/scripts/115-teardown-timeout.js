// teardown takes too long: exit 101.
//
// area: lifecycle
// covers: options.teardownTimeout, exit 101
// exit: 101
// compare: errors
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { teardownTimeout: '500ms' };
export default function () { say('default', 'ran'); }
export function teardown() { say('teardown', 'began'); sleep(5); }
