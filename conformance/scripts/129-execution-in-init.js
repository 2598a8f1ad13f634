// What of k6/execution exists in the init part and in setup.
//
// area: k6/execution
// covers: k6/execution in init; k6/execution in setup; keys of exec
import exec from 'k6/execution';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const attempt = (f) => { try { return f(); } catch (e) { return 'thrown'; } };
const init = {
  vu: attempt(() => exec.vu.idInTest), scenario: attempt(() => exec.scenario.name),
  instance: attempt(() => typeof exec.instance.vusActive), options: attempt(() => typeof exec.test.options),
};
export function setup() {
  say('k6/execution in setup', [
    attempt(() => exec.vu.idInTest), attempt(() => exec.scenario.name),
    attempt(() => typeof exec.instance.vusActive),
  ]);
}
export default function () {
  say('k6/execution in init', init);
  for (const part of [
    'vu', 'scenario', 'instance', 'test',
  ]) say('keys of exec ' + part, Object.keys(exec[part]).sort());
}
