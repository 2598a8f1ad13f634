// Users that say who they are with their first request; the server notes when that was.
import http from 'k6/http';
import { check, sleep } from 'k6';

export default function () {
  const path = __ITER === 0 ? `/first/${__VU}` : '/json';
  // one name for all, or each user would be a time series of its own
  const answer = http.get(__ENV.BENCH_URL + path, { tags: { name: 'item' } });
  check(answer, {
    'status is 200': (r) => r.status === 200,
    'id is 7': (r) => JSON.parse(r.body).id === 7,
  });
  // so that nobody can lend a connection to the next one
  sleep(1);
}
