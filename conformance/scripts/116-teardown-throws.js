// teardown throws: exit 107.
//
// area: lifecycle
// covers: teardown that throws, exit 107
// exit: 107
// compare: errors
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () { say('default', 'ran'); }
export function teardown() { throw new Error('broken teardown'); }
