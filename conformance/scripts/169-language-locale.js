// What stands in for Intl.
//
// area: language
// covers: toLocaleString; localeCompare
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  say('toLocaleString number', [(1234567.891).toLocaleString(), (5).toLocaleString()]);
  say('toLocaleString date', typeof new Date(0).toLocaleString());
  say('localeCompare', [['b', 'a', 'ä', 'B', 'z'].sort((x, y) => x.localeCompare(y))]);
}
