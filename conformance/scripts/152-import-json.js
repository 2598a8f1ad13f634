// JSON through open, and dynamic forms of reading.
//
// area: modules
// covers: import.meta.resolve; JSON by open
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const data = JSON.parse(open(import.meta.resolve('./lib/plain.json')));
export default function () {
  say('JSON by open', data);
  say('import.meta.resolve', import.meta.resolve('./lib/plain.json').endsWith('/lib/plain.json'));
}
