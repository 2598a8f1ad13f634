// The function of a SharedArray is called once for all VUs; bad ones are refused.
//
// area: k6/data
// covers: SharedArray function called once; SharedArray with bad input; SharedArray outside init
// order: any
import { SharedArray } from 'k6/data';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const data = new SharedArray('once', () => { console.log('RESULT called'); return [1, 2, 3]; });
const attempt = (f) => { try { f(); return 'made'; } catch (e) { return 'thrown'; } };
const bad = [
  attempt(() => new SharedArray('b1', () => 'text')),
  attempt(() => new SharedArray('b2', () => ({}))), attempt(() => new SharedArray('', () => [])),
  attempt(() => new SharedArray('b3')), attempt(() => new SharedArray('empty', () => [])),
];
const same = new SharedArray('once', () => [9]);
export const options = { vus: 3, iterations: 3 };
export default function () {
  say('length', [data.length, same[0]]);
  say('SharedArray with bad input', bad);
  say('SharedArray outside init', attempt(() => new SharedArray('late', () => [1])));
}
