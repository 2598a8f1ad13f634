// asyncRequest with await, Promise.all and then.
//
// area: k6/http: batch and async
// covers: http.asyncRequest; Promise.all of requests; await in default
// compare: points
// range: iteration_duration.max 395..1500
import http from 'k6/http';
import { check } from 'k6';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default async function () {
  const B = __ENV.BASE;
  const one = await http.asyncRequest('GET', `${B}/`);
  say('http.asyncRequest', [one.status, one.body]);
  const all = await Promise.all([
    http.asyncRequest('GET', `${B}/delay/200`),
    http.asyncRequest('POST', `${B}/echo`, { a: 1 }, { tags: { name: 'posted' } }),
    http.asyncRequest('DELETE', `${B}/echo`),
  ]);
  say('Promise.all of requests', all.map((r) => r.status));
  say('form', all[1].json('form'));
  const order = [];
  const slow = http.asyncRequest('GET', `${B}/delay/200`).then((r) => {
    order.push('slow');
    return r.status;
  });
  const fast = http.asyncRequest('GET', `${B}/`).then(() => order.push('fast'));
  await Promise.all([slow, fast]);
  say('order', order);
  say(
    'race',
    await Promise.race([
      http.asyncRequest('GET', `${B}/delay/100`).then(() => 'late'),
      http.asyncRequest('GET', `${B}/text`).then(() => 'early'),
    ])
  );
  const refused = await http.asyncRequest('GET', 'http://127.0.0.1:1/');
  say('refused', [refused.status, refused.error_code]);
  check(one, { ok: (r) => r.status === 200 });
}
