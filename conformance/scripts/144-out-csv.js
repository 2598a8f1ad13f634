// --out csv: columns and rows.
//
// area: outputs
// covers: --out csv
// args: --out csv=samples.csv
import http from 'k6/http';
import { check, group } from 'k6';
import { Counter } from 'k6/metrics';
const c = new Counter('made');
export const options = { iterations: 2 };
export default function () {
  group(
    'g',
    () => check(
      http.get(`${__ENV.BASE}/`, { tags: { own: 'x', name: 'front' } }),
      { ok: (r) => r.status === 200 }
    )
  );
  c.add(1, { a: 'b', c: 'd' });
  http.get(`${__ENV.BASE}/status/500`);
}
