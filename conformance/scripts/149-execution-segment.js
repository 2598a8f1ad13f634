// One half of a test: its share of VUs and iterations, numbers unique over both.
//
// area: options
// covers: --execution-segment; exec.vu.idInTest in a segment
// args: --execution-segment 1/2:1 --execution-segment-sequence 0,1/2,1
// order: any
import exec from 'k6/execution';
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { scenarios: { a: { executor: 'per-vu-iterations', vus: 5, iterations: 2 }, b: {
  executor: 'shared-iterations', vus: 4, iterations: 7, startTime: '1s', exec: 'shared',
} } };
export default function () {
  say('vu', [exec.vu.idInTest / exec.vu.idInInstance, exec.vu.iterationInScenario]);
  sleep(0.05);
}
export function shared() {
  say('iteration', [exec.scenario.iterationInInstance, exec.scenario.iterationInTest]);
  sleep(0.02);
}
