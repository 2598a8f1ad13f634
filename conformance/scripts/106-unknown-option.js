// An option that does not exist is told, and the run goes on.
//
// area: bad input
// covers: unknown option
// mentions: iteratons
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { iteratons: 3, vus: 1 };
export default function () { say('ran', __ITER); }
