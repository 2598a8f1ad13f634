// delayAbortEval waits before a failed threshold may stop the run.
//
// area: thresholds
// covers: delayAbortEval
// exit: 99
// compare: errors
// range: iterations.count 25..70
// timing: my_rate
import { Rate } from 'k6/metrics';
import { sleep } from 'k6';
const r = new Rate('my_rate');
export const options = { duration: '25s', thresholds: { my_rate: [{
  threshold: 'rate>0.5', abortOnFail: true, delayAbortEval: '3s',
}] } };
export default function () { r.add(false); sleep(0.1); }
