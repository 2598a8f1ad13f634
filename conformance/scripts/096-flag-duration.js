// --duration replaces the script's scenarios.
//
// area: options: precedence
// covers: --duration; --stage; flags replace scenarios
// args: --duration 1s --vus 2
// range: iterations.count 6..14
import { sleep } from 'k6';
export const options = { scenarios: { a: {
  executor: 'shared-iterations', iterations: 100, exec: 'other',
} } };
export default function () { sleep(0.2); }
export function other() { throw new Error('must not run'); }
