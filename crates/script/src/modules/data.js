// A frozen array whose elements are made when they are looked at.
const index = (key) => {
  if (typeof key !== 'string') return -1;
  const number = Number(key);
  return Number.isInteger(number) && number >= 0 && String(number) === key ? number : -1;
};
const frozen = (value) => {
  if (value !== null && typeof value === 'object') {
    for (const key of Object.keys(value)) frozen(value[key]);
    Object.freeze(value);
  }
  return value;
};
const refuse = () => {
  throw new TypeError('SharedArray is immutable');
};

export default (length, element) => {
  const at = (number) => (number < length ? frozen(element(number)) : undefined);
  return new Proxy([], {
    get(target, key, receiver) {
      const number = index(key);
      if (number >= 0) return at(number);
      return key === 'length' ? length : Reflect.get(target, key, receiver);
    },
    has(target, key) {
      const number = index(key);
      return number >= 0 ? number < length : Reflect.has(target, key);
    },
    ownKeys: () => [...Array.from({ length }, (_, number) => String(number)), 'length'],
    getOwnPropertyDescriptor(target, key) {
      const number = index(key);
      if (number >= 0 && number < length) {
        return { value: at(number), writable: true, enumerable: true, configurable: true };
      }
      return key === 'length'
        ? { value: length, writable: true, enumerable: false, configurable: false }
        : undefined;
    },
    set: refuse,
    defineProperty: refuse,
    deleteProperty: refuse,
    // `new` gives the array the prototype of its constructor; it stays an array.
    setPrototypeOf: () => true,
  });
};
