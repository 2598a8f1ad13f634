// setup returns what JSON cannot hold.
//
// area: bad input
// covers: setup data that is no JSON
// exit: 255
// without: results
// compare: errors
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export function setup() { return { fn: () => 1 }; }
export default function () { say('default', 'must not run'); }
