// startTime: scenarios begin one after another.
//
// area: executors
// covers: startTime; exec.scenario.startTime; exec.scenario.progress
import exec from 'k6/execution';
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  scenarios: {
    early: { executor: 'shared-iterations', iterations: 1 },
    late: { executor: 'shared-iterations', iterations: 2, startTime: '1s', exec: 'late' },
  },
};
export default function () { say('early', exec.instance.currentTestRunDuration < 900); }
export function late() {
  say('late', exec.instance.currentTestRunDuration >= 995);
  say('exec.scenario.startTime', Math.abs(exec.scenario.startTime - Date.now()) < 900);
  say('exec.scenario.progress', exec.scenario.progress);
}
