// Every iteration throws: told each time, exit 0.
//
// area: bad input
// covers: exception in every iteration
// compare: errors points
// mentions: 181-throws-every-iteration.js:12
// mentions: broken on purpose
import http from 'k6/http';
export const options = { vus: 2, iterations: 6 };
export default function () {
  http.get(`${__ENV.BASE}/`);
  throw new Error('broken on purpose');
}
