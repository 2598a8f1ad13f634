// One small answer and two checks of it, as most scripts begin.
import http from 'k6/http';
import { check } from 'k6';

export default function () {
  const answer = http.get(`${__ENV.BENCH_URL}/json`);
  check(answer, {
    'status is 200': (r) => r.status === 200,
    'id is 7': (r) => JSON.parse(r.body).id === 7,
  });
}
