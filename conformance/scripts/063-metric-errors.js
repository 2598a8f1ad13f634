// Names that are not allowed, and the same name twice.
//
// area: k6/metrics
// covers: metric name rules; same metric twice; metric of another type; metrics outside init
import { Counter, Trend } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const outcome = (f) => { try { f(); return 'made'; } catch (e) { return 'thrown'; } };
const made = {
  twice: outcome(() => { new Counter('good_name'); new Counter('good_name'); }),
  'other type': outcome(() => new Trend('good_name')),
  'builtin same': outcome(() => new Counter('http_reqs')),
  'builtin other': outcome(() => new Trend('http_reqs')),
  dash: outcome(() => new Counter('with-dash')), space: outcome(() => new Counter('with space')),
  digit: outcome(() => new Counter('1st')), empty: outcome(() => new Counter('')), none: outcome(() => new Counter()),
  long: outcome(() => new Counter('x'.repeat(129))), most: outcome(() => new Counter('y'.repeat(128))),
  single: outcome(() => new Counter('c')), unicode: outcome(() => new Counter('größe')),
  'without new': outcome(() => Counter('plain')),
};
export default function () {
  for (const name of Object.keys(made)) say(`metric name rules ${name}`, made[name]);
  say('metrics outside init', outcome(() => new Counter('late')));
}
