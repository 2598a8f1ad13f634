// setup takes longer than setupTimeout: exit 100.
//
// area: lifecycle
// covers: options.setupTimeout, exit 100
// exit: 100
// compare: errors
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { setupTimeout: '500ms' };
export function setup() { say('setup', 'began'); sleep(5); }
export default function () { say('default', 'must not run'); }
