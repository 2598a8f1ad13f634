// textSummary and jUnit of the k6-summary library.
//
// area: jslib
// covers: textSummary; jUnit
// volley-only: k6 fetches it over HTTPS, which a closed network does not allow
// without: files
// result: textSummary [true,true,true]
// result: jUnit [true,true]
import { textSummary, jUnit } from 'https://jslib.k6.io/k6-summary/0.0.2/index.js';
import { check } from 'k6';
import { Counter } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const c = new Counter('made');
export const options = { thresholds: { made: ['count==1'] } };
export default function () { c.add(1); check(1, { 'a check': () => true }); }
export function handleSummary(data) {
  const text = textSummary(data, { indent: ' ', enableColors: false });
  say('textSummary', [text.includes('made'), text.includes('a check'), !text.includes('\u001b')]);
  const xml = jUnit(data);
  say('jUnit', [xml.includes('<testsuite'), xml.includes('made - count==1')]);
  return { stdout: '' };
}
