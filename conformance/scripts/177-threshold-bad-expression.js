// A threshold that cannot be read: exit 104.
//
// area: bad input
// covers: bad threshold expression
// exit: 104
// compare: errors
export const options = { thresholds: { http_req_duration: ['p(95)<200 && avg<100'] } };
export default function () {}
