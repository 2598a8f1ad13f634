// No options at all: one VU, one iteration.
//
// area: options
// covers: default options; exec.test.options
// compare: summary points
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  say('default options', [__VU, __ITER, exec.scenario.name, exec.scenario.executor]);
  const o = exec.test.options;
  say('exec.test.options', Object.keys(o).sort());
  say('scenarios', o.scenarios);
  say('values', [
    o.vus, o.iterations, o.duration, o.batch, o.batchPerHost, o.maxRedirects, o.setupTimeout,
    o.summaryTrendStats,
  ]);
}
