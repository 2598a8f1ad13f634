// handleSummary: the object it gets, and what it returns is written.
//
// area: summary
// covers: handleSummary; handleSummary data; handleSummary files
// compare: stdout
import http from 'k6/http';
import { check, group } from 'k6';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const c = new Counter('my_count'), g = new Gauge('my_gauge'), r = new Rate('my_rate'), t = new Trend('my_trend', true);
export const options = { iterations: 2, thresholds: {
  my_count: ['count>1', 'count<100'], 'my_trend{kind:a}': ['max<100'], http_req_failed: [],
} };
export default function () {
  c.add(2); g.add(5); r.add(true); t.add(10, { kind: 'a' });
  group('outer', () => { group('inner', () => check(1, { yes: () => true, no: () => false })); });
  http.get(`${__ENV.BASE}/`);
}
export function handleSummary(data) {
  say('handleSummary data', Object.keys(data).sort());
  say('options', data.options);
  say('state', [Object.keys(data.state).sort(), data.state.testRunDurationMs > 0]);
  for (const name of Object.keys(data.metrics).filter((n) => !/^vus/.test(n)).sort()) {
    const m = data.metrics[name];
    say('metric ' + name, [
      Object.keys(m).sort(), m.type, m.contains, Object.keys(m.values).sort(), m.thresholds,
    ]);
  }
  for (const name of [
    'my_gauge', 'my_rate', 'my_trend', 'my_trend{kind:a}', 'checks', 'http_req_failed',
  ]) say('values ' + name, data.metrics[name].values);
  say('counter', data.metrics.my_count.values.count);
  const strip = (x) => {
    delete x.id;
    (x.groups || []).forEach(strip);
    (x.checks || []).forEach((k) => delete k.id);
    return x;
  };
  say('root_group', strip(data.root_group));
  return {
    stdout: 'own summary\nof two lines\n', stderr: 'to stderr\n',
    'out.txt': `count ${data.metrics.my_count.values.count}\n`,
    'folder.json': JSON.stringify({ passes: data.metrics.checks.values.passes }),
    'bytes.bin': new Uint8Array([65, 66, 67]).buffer,
  };
}
