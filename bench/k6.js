// The plan with one GET, as a user of k6 would write it.
import http from 'k6/http';

export default function () {
  http.get(__ENV.BENCH_URL);
}
