// setup that returns nothing, and values that are no objects.
//
// area: lifecycle
// covers: setup returning undefined
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export function setup() {}
export default function (data) { say('default', [
  typeof data, data === undefined, data === null, arguments.length,
]); }
export function teardown(data) { say('teardown', [
  typeof data, data === undefined, arguments.length,
]); }
