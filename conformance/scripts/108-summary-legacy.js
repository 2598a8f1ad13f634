// The summary of older versions.
//
// area: summary
// covers: --summary-mode=legacy
// args: --summary-mode legacy
// compare: summary
import http from 'k6/http';
import { check, group } from 'k6';
export const options = {
  iterations: 2, thresholds: { http_reqs: ['count==2'], 'http_req_duration{status:200}': [] },
};
export default function () {
  group(
    'one',
    () => check(
      http.get(`${__ENV.BASE}/`), { ok: (r) => r.status === 200, not: (r) => r.status === 201 }
    )
  );
}
