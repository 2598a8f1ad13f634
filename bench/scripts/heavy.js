// Work for the processor and none for the network: HMAC over 10 KB, 10 KB of JSON in and out.
import crypto from 'k6/crypto';
import exec from 'k6/execution';

const SIZE = 10240;
const DIGEST = '9330225f2b2bd1e341f342ab4ca9cf0e99657b55bb83a128a56b2ee6c0bb1fbe';

// What a shop would answer with: strings, numbers, lists, escapes.
const orders = [];
for (let id = 1; id <= 54; id++) {
  orders.push({
    id,
    customer: `customer-${id}@example.com`,
    paid: id % 3 !== 0,
    total: id * 17.25,
    note: id % 5 ? null : 'gift:\t"no invoice"\n',
    lines: [
      { article: 'kettle', count: (id % 4) + 1, price: 24.5 },
      { article: 'teapot', count: 1, price: 17.25 },
    ],
  });
}
const shorter = JSON.stringify({ orders, end: '' });
const text = JSON.stringify({ orders, end: 'x'.repeat(SIZE - shorter.length) });

export default function () {
  const digest = crypto.hmac('sha256', 'a secret', text, 'hex');
  const again = JSON.stringify(JSON.parse(text));
  // who computes something else gets no figure
  if (digest !== DIGEST || again !== text) {
    exec.test.abort(`wrong: ${digest}, ${again.length} characters`);
  }
}
