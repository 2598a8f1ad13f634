// Without setup, default still gets an argument; --no-setup and --no-teardown skip them.
//
// area: lifecycle
// covers: --no-setup; --no-teardown
// args: --no-setup --no-teardown
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export function setup() { say('setup', 'must not run'); return 1; }
export default function (data) { say('default', [typeof data, data === null]); }
export function teardown() { say('teardown', 'must not run'); }
