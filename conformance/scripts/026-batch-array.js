// http.batch with an array: strings, arrays, objects mixed; answers in order.
//
// area: k6/http: batch and async
// covers: http.batch([...]); batch of strings; batch of arrays; batch of objects
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const B = __ENV.BASE;
  const got = http.batch([
    `${B}/`,
    ['GET', `${B}/delay/150`],
    ['POST', `${B}/echo`, 'text', { tags: { kind: 'post' } }],
    ['PUT', `${B}/echo`, { a: '1' }],
    { method: 'GET', url: `${B}/status/404` },
    {
      method: 'POST', url: `${B}/echo`, body: JSON.stringify({ x: 1 }),
      params: { headers: { 'Content-Type': 'application/json' } },
    },
    { url: `${B}/text` },
    ['GET', `${B}/echo?q=1`, null, { headers: { 'X-B': 'b' }, redirects: 0 }],
  ]);
  say('http.batch([...])', [Array.isArray(got), got.length]);
  say('statuses', got.map((r) => r.status));
  say('bodies', [
    got[0].body, got[1].body, got[2].json('body'), got[3].json('form'), got[5].json('body'),
    got[6].body, got[7].json('headers.x-b'),
  ]);
  say('empty', http.batch([]).length);
}
