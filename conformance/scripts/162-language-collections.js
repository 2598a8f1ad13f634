// Map, Set, WeakMap, typed arrays, Proxy, Reflect, Symbol.
//
// area: language
// covers: Map; Set; WeakMap; typed arrays; DataView; Proxy; Reflect; Symbol
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const m = new Map([['a', 1], [NaN, 2], [0, 'zero']]); m.set({}, 3);
  say('Map', [
    m.size, m.get(NaN), m.get(-0), [...m.keys()].length, Object.fromEntries([...m].slice(0, 1)),
  ]);
  const s = new Set([1, 1, 2, '1']); s.delete(2);
  say('Set', [s.size, [...s], s.has('1')]);
  const w = new WeakMap(); const k = {}; w.set(k, 'v');
  say('WeakMap', [w.get(k), w.has({}), typeof WeakRef, typeof WeakSet]);
  const u = new Uint8Array([250, 255]); u[0] += 10;
  say('typed arrays', [
    Array.from(u), new Uint8ClampedArray([300])[0], new Int16Array([40000])[0],
    new Float32Array([0.1])[0] === 0.1, Float64Array.BYTES_PER_ELEMENT,
    [...new Uint16Array(new Uint8Array([1, 2]).buffer)], u.subarray(1).length,
    Array.from(u.map((x) => x / 2)), new Uint8Array([3, 1, 2]).sort().join(''),
  ]);
  const v = new DataView(new ArrayBuffer(8)); v.setInt16(0, -2); v.setFloat32(4, 1.5, true);
  say('DataView', [v.getUint8(0), v.getInt16(0), v.getFloat32(4, true)]);
  const p = new Proxy({}, {
    get: (t, key) => `got ${String(key)}`, has: () => true, set() { return false; },
  });
  say('Proxy', [
    p.anything, 'x' in p, Reflect.set(p, 'a', 1),
    Reflect.ownKeys({ b: 1, [Symbol.for('s')]: 2 }).length,
  ]);
  say('Symbol', [
    Symbol.for('q') === Symbol.for('q'), Symbol('d').description, typeof Symbol.asyncIterator,
    { [Symbol.toPrimitive]: () => 42 } * 2,
  ]);
  say('Reflect', [
    Reflect.has({ a: 1 }, 'a'), Reflect.construct(Date, [0]).getTime(),
    Reflect.apply(Math.max, null, [1, 2]),
  ]);
}
