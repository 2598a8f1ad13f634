// A whole script: an own report from handleSummary.
//
// area: whole scripts
// covers: own report; thresholds in handleSummary
// exit: 99
// compare: stdout errors
import http from 'k6/http';
import { check } from 'k6';
export const options = { iterations: 3, thresholds: {
  checks: ['rate==1'], http_reqs: ['count>=3'], http_req_failed: ['rate<0.5'],
} };
export default function () {
  check(
    http.get(`${__ENV.BASE}/status/${__ITER === 1 ? 500 : 200}`),
    { 'is 200': (r) => r.status === 200 }
  );
}
export function handleSummary(data) {
  const lines = [];
  for (const [name, metric] of Object.entries(data.metrics).sort(([a], [b]) => (a < b ? -1 : 1))) {
    for (const [expression, { ok }] of Object.entries(metric.thresholds || {})) {
      const inner = ok ? '' : '<failure/>';
      lines.push(`<testcase name="${name} ${expression}">${inner}</testcase>`);
    }
  }
  const { passes, fails } = data.metrics.checks.values;
  return {
    'junit.xml': `<testsuite tests="${lines.length}">\n${lines.join('\n')}\n</testsuite>\n`,
    stdout: `checks ${passes} of ${passes + fails}\n`,
    'summary.json': JSON.stringify({
      requests: data.metrics.http_reqs.values.count,
      failed: data.metrics.http_req_failed.values.rate,
    }),
  };
}
