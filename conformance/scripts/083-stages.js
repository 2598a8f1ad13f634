// stages at the top: VUs go up and down.
//
// area: options
// covers: options.stages; ramping-vus
// range: iterations.count 30..75
// range: vus.max 3..4
// range: vus_max.max 4..4
import { sleep } from 'k6';
export const options = { stages: [
  { duration: '1s', target: 4 }, { duration: '1s', target: 4 }, { duration: '1s', target: 0 },
] };
export default function () { sleep(0.15); }
