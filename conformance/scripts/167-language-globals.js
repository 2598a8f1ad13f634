// Which globals exist and which do not.
//
// area: language
// covers: global names; absent globals
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const names = [
    'Intl', 'window', 'self', 'global', 'globalThis', 'process', 'Buffer', 'require', 'module',
    'exports', 'fetch', 'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'atob', 'btoa',
    'structuredClone', 'queueMicrotask', 'setImmediate', 'crypto', 'performance', 'WebAssembly',
    'Blob', 'FormData', 'Headers', 'XMLHttpRequest', 'WebSocket', 'AbortController', 'Event',
    'SharedArrayBuffer', 'Atomics', 'escape', 'eval', 'console', 'open', '__ENV', '__VU', '__ITER',
    'setTimeout', 'FinalizationRegistry', 'Iterator',
  ];
  const kind = (n) => { try { return typeof globalThis[n]; } catch (e) { return 'thrown'; } };
  for (const n of names) say('global ' + n, kind(n));
  say('eval', [eval('1 + 1'), new Function('a', 'return a * 2')(4)]);
}
