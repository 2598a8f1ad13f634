// rps limits the requests of all VUs together.
//
// area: options
// covers: options.rps
// range: http_reqs.count 8..32
// range: iterations.count 8..32
import http from 'k6/http';
export const options = { rps: 10, vus: 2, duration: '2s' };
export default function () { http.get(`${__ENV.BASE}/`); }
