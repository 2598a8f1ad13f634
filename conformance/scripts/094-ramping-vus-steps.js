// Steps of length zero set the number of VUs at once.
//
// area: executors
// covers: ramping-vus; startVUs; gracefulRampDown
// range: iterations.count 14..30
// range: vus.max 3..3
import { sleep } from 'k6';
export const options = {
  scenarios: { r: {
    executor: 'ramping-vus', startVUs: 0, gracefulRampDown: '0s', gracefulStop: '0s',
    stages: [
      { duration: '0s', target: 3 }, { duration: '1500ms', target: 3 },
      { duration: '0s', target: 1 }, { duration: '1s', target: 1 },
    ],
  } },
};
export default function () { sleep(0.25); }
