// Classes with everything.
//
// area: language
// covers: classes; private fields; static blocks; getters and setters; inheritance; Symbol.iterator
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
class Animal {
  #secret = 'hidden'; static count = 0; legs = 4;
  static #made = 0;
  constructor(name) { this.name = name; Animal.count++; Animal.#made++; }
  get secret() { return this.#secret; } set secret(v) { this.#secret = v + '!'; }
  #hidden() { return 'private method'; } reveal() { return this.#hidden(); }
  static made() { return Animal.#made; }
  has(o) { return #secret in o; }
  *[Symbol.iterator]() { yield this.name; yield this.legs; }
  get [Symbol.toStringTag]() { return 'Beast'; }
}
class Bird extends Animal {
  legs = 2;
  constructor(n) { super(n); } speak() {
    return `${super.reveal()} of ${this.name}`;
  } static who = 'bird';
}
export default function () {
  const b = new Bird('tit');
  b.secret = 'new';
  say('classes', [b.name, b.legs, b.secret, b.speak(), Bird.count, Bird.who, Animal.made()]);
  say('Symbol.iterator', [[...b], String(b), b.has(b), b.has({})]);
  say('instanceof', [
    b instanceof Animal, b.constructor.name, Object.getPrototypeOf(Bird) === Animal,
    new.target === undefined,
  ]);
  const o = {
    _v: 1, get v() { return this._v * 2; }, set v(x) { this._v = x; }, ['comp' + 1]: 5,
    async am() {}, *gen() { yield 1; },
  };
  o.v = 10;
  say('getters and setters', [
    o.v, o.comp1, Object.getOwnPropertyDescriptor(o, 'v').set !== undefined,
  ]);
}
