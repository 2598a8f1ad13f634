// How many requests of a batch are under way at once.
//
// area: k6/http: batch and async
// covers: options.batch; options.batchPerHost; batch runs in parallel
// range: iteration_duration.max 550..2500
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { batch: 4, batchPerHost: 2 };
export default function () {
  const urls = [1, 2, 3, 4, 5, 6].map(() => `${__ENV.BASE}/delay/200`);
  const start = Date.now();
  const got = http.batch(urls);
  const ms = Date.now() - start;
  say('batch runs in parallel', ms < 1150);
  say('options.batchPerHost', ms > 550);
  say('all', got.every((r) => r.status === 200));
}
