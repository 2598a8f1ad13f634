// res.json() whole and with a path.
//
// area: k6/http: response
// covers: Response.json; Response.json(path)
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const res = http.get(`${__ENV.BASE}/json`);
  const whole = res.json();
  say('Response.json', [whole.user.name, whole.items.length, whole.text, whole.empty]);
  for (const path of ['user.name', 'user.tags', 'user.tags.1', 'user.tags.#', 'items.#.id', 'items.0',
    'items.1.price', 'items.#(id==2).ok', 'items.#(price>10)#.id', 'a\\.b', 'user.none', 'user.ratio', 'user.age',
    'text', 'empty', 'no.such', 'user.*e', 'items.@reverse.0.id', '@this.user.age']) {
    say('Response.json(path) ' + path, [typeof res.json(path), res.json(path)]);
  }
  say('again', res.json().items[1].id + res.json('items.0.id'));
  const bad = http.get(`${__ENV.BASE}/`);
  try { bad.json(); say('bad', 'nothing thrown'); } catch (e) { say('bad', e.name); }
  try { say('bad path', [bad.json('x')]); } catch (e) { say('bad path', e.name); }
  const empty = http.get(`${__ENV.BASE}/status/204`);
  try { say('empty', [empty.json()]); } catch (e) { say('empty', 'thrown'); }
}
