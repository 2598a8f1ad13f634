// An aggregation that the metric does not have: exit 104.
//
// area: bad input
// covers: threshold with a wrong aggregation
// exit: 104
// compare: errors
// mentions: p(95)
export const options = { thresholds: { http_reqs: ['p(95)<200'] } };
export default function () {}
