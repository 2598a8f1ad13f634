// Everything that a summary can show, in as few samples as possible.
import http from 'k6/http';
import { check, group, sleep } from 'k6';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';

const orders = new Counter('orders');
const stock = new Gauge('stock');
const waiting = new Gauge('Waiting_time', true);
const cached = new Rate('cached');
const price = new Trend('price');
const search = new Trend('time_until_the_search_has_shown_results', true);
new Counter('never_used');

const TARGET = __ENV.TARGET || 'http://127.0.0.1:8080';

export const options = {
  tags: { zone: 'é, <"b">' },
  systemTags: ['group', 'check', 'scenario', 'expected_response', 'status', 'vu', 'iter'],
  scenarios: {
    default: { executor: 'per-vu-iterations', vus: 1, iterations: 1 },
    buyers: { executor: 'per-vu-iterations', vus: 1, iterations: 3, startTime: '200ms', exec: 'buy' },
    late: { executor: 'constant-arrival-rate', rate: 5, duration: '1s', preAllocatedVUs: 1, exec: 'wait' },
  },
  thresholds: {
    http_req_duration: ['p(95)<5000', 'avg<0.0001'],
    'http_req_duration{scenario:buyers}': ['max<9000'],
    'http_reqs{status:200}': ['count>1'],
    'http_reqs{group:::basket}': [],
    orders: ['count>3', 'rate<0.1'],
    stock: ['value<10'],
    cached: ['rate>0.9'],
    checks: ['rate>0.1'],
    data_sent: ['rate>1'],
    ws_sessions: ['count==0'],
    price: ['med<100'],
    iterations: [{ threshold: 'count>0', abortOnFail: true, delayAbortEval: '10s' }, 'rate<1e3'],
  },
};

export function setup() {
  http.get(`${TARGET}/volley/seen`);
  group('prepare', () => check(1, { prepared: () => true }));
}

export default function () {
  group('front page', () => check(http.get(`${TARGET}/missing`), { 'is there': (r) => r.status === 200 }));
}

export function buy() {
  const answer = http.get(`${TARGET}/`);
  check(answer, { 'status is 200': (r) => r.status === 200, 'body is long': (r) => r.body.length > 1e6 });
  group('basket', () => {
    check(http.get(`${TARGET}/missing`), { 'status is 200': (r) => r.status === 200 });
    group('payment', () => {
      orders.add(1);
      check(answer, { paid: () => true, refunded: () => false });
    });
  });
  stock.add(7.5);
  waiting.add(-12.25);
  cached.add(true);
  cached.add(__ITER > 0);
  price.add(12.3456);
  price.add(-3, { kind: 'a=b&c' });
  search.add(61234.5 * (__ITER + 1));
}

export function wait() {
  sleep(1.2);
}
