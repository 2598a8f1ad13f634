// All executors beside each other, each with its own function.
//
// area: executors
// covers: scenarios; exec; shared-iterations; per-vu-iterations; constant-vus; ramping-vus
// covers: constant-arrival-rate; ramping-arrival-rate; scenario tags; scenario env
// order: any
// range: runs{scenario:cvus}.count 3..12
// range: runs{scenario:rvus}.count 3..14
// range: runs.count 45..80
// range: iterations.count 45..80
// range: runs{scenario:carr}.count 19..21
// range: runs{scenario:rarr}.count 9..12
import exec from 'k6/execution';
import { sleep } from 'k6';
import { Counter } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const runs = new Counter('runs');
const seen = {};
export const options = {
  scenarios: {
    shared: {
      executor: 'shared-iterations', vus: 2, iterations: 6, exec: 'quick',
      env: { WHO: 'shared-env' },
    },
    each: {
      executor: 'per-vu-iterations', vus: 2, iterations: 3, exec: 'quick', tags: { side: 'left' },
    },
    cvus: { executor: 'constant-vus', vus: 1, duration: '1s', exec: 'slow' },
    rvus: {
      executor: 'ramping-vus', startVUs: 1, stages: [{ duration: '1s', target: 2 }], exec: 'slow',
      gracefulRampDown: '1s',
    },
    carr: {
      executor: 'constant-arrival-rate', rate: 10, timeUnit: '1s', duration: '2s',
      preAllocatedVUs: 3, exec: 'quick',
    },
    rarr: {
      executor: 'ramping-arrival-rate', startRate: 0, timeUnit: '1s',
      stages: [{ duration: '2s', target: 10 }], preAllocatedVUs: 3, exec: 'quick',
    },
  },
  thresholds: {
    'runs{scenario:shared}': ['count==6'], 'runs{scenario:each}': ['count==6'], 'runs{side:left}': ['count==6'],
    'runs{scenario:cvus}': [], 'runs{scenario:rvus}': [], 'runs{scenario:carr}': [], 'runs{scenario:rarr}': [],
  },
};
function once(what, value) {
  if (seen[what] || exec.scenario.iterationInTest !== 0) return;
  seen[what] = 1;
  say(what, value);
}
export function quick() {
  runs.add(1);
  once(exec.scenario.name, [exec.scenario.executor, __ENV.WHO]);
}
export function slow() {
  runs.add(1);
  once(exec.scenario.name, [exec.scenario.executor, __ENV.WHO]);
  sleep(0.2);
}
export default function () { say('default', 'must not run'); }
