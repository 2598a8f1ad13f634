// --no-summary prints nothing.
//
// area: summary
// covers: --no-summary
// args: --no-summary
// compare: stdout
import http from 'k6/http';
export default function () { http.get(`${__ENV.BASE}/`); }
