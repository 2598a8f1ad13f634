// --stage gives stages on the command line.
//
// area: options: precedence
// covers: --stage
// args: --stage 1s:2 --stage 500ms:2 -s 1s:0
// range: iterations.count 8..26
import exec from 'k6/execution';
import { sleep } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iterations: 1 };
export default function () {
  if (exec.scenario.iterationInTest === 0) say(
    '--stage', [exec.scenario.executor, exec.test.options.stages === undefined]
  );
  sleep(0.15);
}
