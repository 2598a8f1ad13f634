// Options for the cloud and for extensions do not disturb.
//
// area: options
// covers: options.cloud; options.ext
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  iterations: 1,
  cloud: { projectID: 1, name: 'x', distribution: { a: { loadZone: 'b', percent: 100 } } },
  ext: { loadimpact: { name: 'old' } }, dns: { ttl: '1m', select: 'first', policy: 'preferIPv4' },
};
export default function () { say('ran', __ITER); }
