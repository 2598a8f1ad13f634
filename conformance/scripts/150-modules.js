// ES modules: default, named, renamed, star, live bindings, nested folders.
//
// area: modules
// covers: import of local files; import * as; live bindings; re-imports share state
import Greeter, { greet as hi, bump, counter } from './lib/greet.js';
import * as all from './lib/greet.js';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
bump();
export default function () {
  say('import of local files', [hi('you'), new Greeter('me').say()]);
  say('import * as', Object.keys(all).sort());
  say('live bindings', [counter, bump(), counter, all.counter]);
}
