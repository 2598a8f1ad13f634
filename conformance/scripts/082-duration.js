// vus and duration at the top: constant VUs.
//
// area: options
// covers: options.duration; constant-vus; vus metric
// range: iterations.count 14..22
// range: http_reqs.count 14..24
// range: vus.max 2..2
// range: vus_max.value 2..2
// range: iteration_duration.min 199..400
import http from 'k6/http';
import { sleep } from 'k6';
export const options = { vus: 2, duration: '2s', thresholds: { http_req_failed: ['rate==0'] } };
export default function () { http.get(`${__ENV.BASE}/`); sleep(0.2); }
