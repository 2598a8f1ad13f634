// gracefulStop: an iteration may end within it, otherwise it is interrupted.
//
// area: executors
// covers: gracefulStop; interrupted iterations
// order: any
// range: iteration_duration.max 1390..2500
// range: iterations.count 1..2
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  scenarios: {
    patient: {
      executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '3s', exec: 'patient',
    },
    hasty: { executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '0s', exec: 'hasty' },
  },
};
export function patient() { sleep(1.4); say('patient', 'ended'); }
export function hasty() { say('hasty', 'began'); sleep(1.4); }
