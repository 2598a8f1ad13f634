// What the engine says: messages of common exceptions.
//
// area: language
// covers: messages of exceptions
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const message = (f) => { try { f(); return 'nothing'; } catch (e) { return e.message; } };
  say('property of undefined', message(() => undefined.x));
  say('property of null', message(() => null.x));
  say('not a function', message(() => ({}).f()));
  say('not defined', message(() => missingName));
  say('const', message(() => { const c = 1; c = 2; }));
  say('json', message(() => JSON.parse('{bad')));
  say('not iterable', message(() => { const [a] = 5; }));
  say('class without new', message(() => (class A {})()));
}
