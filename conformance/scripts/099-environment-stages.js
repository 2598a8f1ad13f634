// K6_STAGES and K6_DURATION.
//
// area: options: precedence
// covers: K6_STAGES
// env: K6_STAGES=1s:2,500ms:0
// range: iterations.count 5..16
import { sleep } from 'k6';
export const options = { vus: 1, iterations: 1 };
export default function () { sleep(0.2); }
