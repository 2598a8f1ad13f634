// The shape of k6/execution: everything is looked up when it is read.
const facts = (native, group, names) => {
  const object = {};
  for (const name of names) {
    Object.defineProperty(object, name, {
      enumerable: true,
      get: () => native.fact(`${group}.${name}`),
    });
  }
  return object;
};

const map = (get, set, remove, keys) =>
  new Proxy({}, {
    get: (target, key) => (typeof key === 'string' ? get(key) ?? target[key] : target[key]),
    set: (target, key, value) => set(key, value),
    has: (target, key) => get(key) !== undefined,
    deleteProperty: (target, key) => (remove(key), true),
    ownKeys: () => keys(),
    getOwnPropertyDescriptor: (target, key) => {
      const value = typeof key === 'string' ? get(key) : undefined;
      return value === undefined
        ? undefined
        : { value, writable: true, enumerable: true, configurable: true };
    },
  });

export default (native) => {
  const tags = map(native.tag, native.setTag, native.removeTag, native.tagKeys);
  const metadata = map(native.datum, native.setDatum, native.removeDatum, native.dataKeys);
  const vu = facts(native, 'vu', [
    'iterationInScenario', 'idInInstance', 'idInTest', 'iterationInInstance',
  ]);
  const guarded = (value) => ({ enumerable: true, get: () => (native.fact('vu.idInTest'), value) });
  Object.defineProperty(vu, 'tags', guarded(tags));
  const metrics = {};
  Object.defineProperty(metrics, 'tags', {
    enumerable: true,
    get: () => (native.fact('vu.idInTest'), tags),
    set: (value) => {
      for (const key of Object.keys(value)) native.setTag(key, value[key]);
    },
  });
  Object.defineProperty(metrics, 'metadata', guarded(metadata));
  vu.metrics = metrics;
  const test = { fail: native.fail, abort: native.abort };
  Object.defineProperty(test, 'options', { enumerable: true, get: native.options });
  return {
    instance: facts(native, 'instance', [
      'currentTestRunDuration', 'iterationsCompleted', 'iterationsInterrupted', 'vusActive',
      'vusInitialized',
    ]),
    scenario: facts(native, 'scenario', [
      'name', 'executor', 'startTime', 'progress', 'iterationInInstance', 'iterationInTest',
    ]),
    test,
    vu,
  };
};
