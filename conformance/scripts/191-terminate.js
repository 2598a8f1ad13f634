// SIGTERM does the same.
//
// area: lifecycle
// covers: SIGTERM, exit 105
// exit: 105
// compare: errors
// signal: TERM 1.2
// range: iterations.count 2..30
import { sleep } from 'k6';
export const options = { vus: 1, iterations: 1000 };
export default function () { sleep(0.2); }
