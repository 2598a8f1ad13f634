// HTTP in the init part: exit 107.
//
// area: bad input
// covers: HTTP in init
// exit: 107
// compare: errors
// mentions: 179-http-in-init.js:9
import http from 'k6/http';
http.get(`${__ENV.BASE}/`);
export default function () {}
