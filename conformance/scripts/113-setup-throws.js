// setup throws: no iteration, exit 107.
//
// area: lifecycle
// covers: setup that throws, exit 107
// exit: 107
// compare: errors
// mentions: 113-setup-throws.js:13
// mentions: broken setup
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export function setup() {
  say('setup', 'began');
  throw new Error('broken setup');
}
export default function () { say('default', 'must not run'); }
export function teardown() { say('teardown', 'ran'); }
export function handleSummary() { return { stdout: 'RESULT summary\n' }; }
