// abortOnFail stops the run soon; teardown still happens.
//
// area: thresholds
// covers: abortOnFail; teardown after abort
// exit: 99
// compare: errors
// range: iterations.count 1..60
// timing: my_rate
import { Rate } from 'k6/metrics';
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const r = new Rate('my_rate');
export const options = {
  vus: 2, duration: '30s', thresholds: { my_rate: [{ threshold: 'rate>0.5', abortOnFail: true }] },
};
export default function () { r.add(false); sleep(0.2); }
export function teardown() { say('teardown', 'ran'); }
