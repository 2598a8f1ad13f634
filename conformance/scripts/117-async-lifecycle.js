// async setup, default and teardown.
//
// area: lifecycle
// covers: async setup; async default; async teardown
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const later = (ms, v) => new Promise((resolve) => setTimeout(() => resolve(v), ms));
export async function setup() {
  await later(50);
  const r = await http.asyncRequest('GET', `${__ENV.BASE}/json`);
  return { name: r.json('user.name') };
}
export default async function (data) {
  say('data', data);
  say('async default', await later(20, 'waited'));
}
export async function teardown(data) { await later(20); say('async teardown', data.name); }
