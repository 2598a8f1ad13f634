// Which answers count as failed.
//
// area: k6/http: response callback
// covers: http.expectedStatuses; http.setResponseCallback; params.responseCallback; http_req_failed
// compare: points
import http from 'k6/http';
export const options = { thresholds: {
  http_req_failed: ['rate<1'], 'http_req_failed{kind:own}': [],
  'http_reqs{expected_response:false}': [],
} };
export default function () {
  const B = __ENV.BASE;
  http.get(`${B}/status/404`);
  http.get(`${B}/status/302`, { redirects: 0 });
  http.setResponseCallback(http.expectedStatuses(404, { min: 500, max: 503 }));
  http.get(`${B}/status/404`);
  http.get(`${B}/status/501`);
  http.get(`${B}/`);
  http.get(`${B}/`, { responseCallback: http.expectedStatuses(200), tags: { kind: 'own' } });
  http.get(`${B}/status/500`, { responseCallback: null, tags: { kind: 'none' } });
  http.batch([['GET', `${B}/status/418`, null, { responseCallback: http.expectedStatuses(418) }]]);
  http.setResponseCallback(null);
  http.get(`${B}/status/500`, { tags: { kind: 'off' } });
}
