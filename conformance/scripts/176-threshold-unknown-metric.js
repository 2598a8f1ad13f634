// A threshold on a metric that nobody defines: exit 104.
//
// area: bad input
// covers: threshold on an unknown metric
// exit: 104
// compare: errors
// mentions: http_req_durations
export const options = { thresholds: { http_req_durations: ['p(95)<200'] } };
export default function () {}
