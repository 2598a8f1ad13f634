// The flow of checkout.yaml as a k6 script: log in, look at the cart, and search beside it.
//
//   volley target                                                          (in one terminal)
//   volley run examples/checkout.js -e BASE=http://127.0.0.1:8080          (in another)

import { check, fail, group, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import http from 'k6/http';
import { Trend } from 'k6/metrics';
import { randomIntBetween, randomItem } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';

const BASE = __ENV.BASE || 'http://127.0.0.1:8080';
const REGION = __ENV.REGION || 'eu';
const WORDS = ['tea', 'lamp', 'chair', 'rope'];

// Read once, shared by all virtual users.
const users = new SharedArray('users', () => {
  return papaparse.parse(open('./users.csv'), { header: true, skipEmptyLines: true }).data;
});

const cartItems = new Trend('cart_items');

export const options = {
  scenarios: {
    shop: {
      executor: 'ramping-vus',
      exec: 'shop',
      stages: [
        { duration: '5s', target: 50 },
        { duration: '10s', target: 50 },
        { duration: '5s', target: 0 },
      ],
    },
    search: {
      executor: 'constant-arrival-rate',
      exec: 'search',
      rate: 50,
      duration: '10s',
      preAllocatedVUs: 10,
      startTime: '5s',
    },
  },
  thresholds: {
    checks: [{ threshold: 'rate>0.99', abortOnFail: true, delayAbortEval: '5s' }],
    http_req_failed: ['rate<0.01'],
    'http_req_duration{name:cart}': ['p(95)<200'],
  },
};

export function setup() {
  const answer = http.get(`${BASE}/`);
  if (answer.status !== 200) {
    fail(`${BASE} answers ${answer.status}; is the target up?`);
  }
}

export function shop() {
  const user = randomItem(users);
  let token;
  group('login', () => {
    const body = JSON.stringify({ user: user.name, password: user.password });
    const headers = { 'content-type': 'application/json' };
    const answer = http.post(`${BASE}/login`, body, { headers, tags: { name: 'login' } });
    check(answer, {
      'logged in': (r) => r.status === 200,
      'has a token': (r) => Boolean(r.json('token')),
    });
    token = answer.json('token');
  });
  group('cart', () => {
    const headers = { authorization: `Bearer ${token}` };
    const url = `${BASE}/cart?region=${REGION}`;
    const answer = http.get(url, { headers, tags: { name: 'cart' } });
    check(answer, { 'cart has items': (r) => r.json('items.#') > 0 });
    cartItems.add(answer.json('items.#'));
  });
  sleep(randomIntBetween(100, 300) / 1000);
}

export function search() {
  const answer = http.get(http.url`${BASE}/search?q=${randomItem(WORDS)}`);
  check(answer, { 'found something': (r) => r.json().length > 0 });
}
