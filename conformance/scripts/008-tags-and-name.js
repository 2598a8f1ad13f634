// Tags of a request end on every sample of it; `name` replaces the URL.
//
// area: k6/http: params
// covers: params.tags; tags.name; sub-metrics by tag
// compare: points
import http from 'k6/http';
export const options = {
  iterations: 3,
  thresholds: {
    'http_reqs{name:item}': ['count==3'],
    'http_reqs{kind:static}': ['count==3'],
    'http_req_duration{kind:static,name:plain}': [],
    'http_reqs{kind:other}': ['count==0'],
  },
};
export default function () {
  http.get(`${__ENV.BASE}/echo?id=${__ITER}`, { tags: { name: 'item', number: 5, yes: true } });
  http.get(`${__ENV.BASE}/`, { tags: { kind: 'static', name: 'plain' } });
  http.get(`${__ENV.BASE}/status/404`, { tags: { method: 'mine', status: 'x' } });
}
