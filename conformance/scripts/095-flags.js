// Flags win over the script's options.
//
// area: options: precedence
// covers: --vus; --iterations; flag over script
// args: --vus 2 --iterations 5 --tag team=blue -e WHO=flag
// compare: points
// order: any
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { vus: 7, duration: '40s', tags: { team: 'red', from: 'script' } };
export default function () {
  say('who', [__ENV.WHO, exec.vu.metrics.tags.team, exec.vu.metrics.tags.from]);
}
