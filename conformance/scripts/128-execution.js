// Who and where am I: all numbers of k6/execution.
//
// area: k6/execution
// covers: exec.vu.idInTest; exec.vu.idInInstance; exec.vu.iterationInInstance
// covers: exec.vu.iterationInScenario; exec.scenario.iterationInInstance
// covers: exec.scenario.iterationInTest; exec.instance
// order: any
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { scenarios: {
  one: { executor: 'per-vu-iterations', vus: 2, iterations: 2 },
  two: { executor: 'per-vu-iterations', vus: 1, iterations: 2, startTime: '1s', exec: 'second' } } };
export default function () { report(); }
export function second() { report(); }
function report() {
  const { vu, scenario, instance } = exec;
  say('vu', [
    scenario.name, vu.idInTest === __VU, vu.idInInstance === __VU, vu.iterationInInstance,
    vu.iterationInScenario, __ITER,
  ]);
  say('iterations', [scenario.name, scenario.iterationInInstance === scenario.iterationInTest]);
  say('number', [scenario.name, scenario.iterationInTest]);
  say('exec.instance', [
    instance.vusInitialized, typeof instance.iterationsCompleted,
    typeof instance.iterationsInterrupted, typeof instance.vusActive,
    instance.currentTestRunDuration > 0,
  ]);
}
