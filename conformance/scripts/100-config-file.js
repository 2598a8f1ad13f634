// --config is the lowest layer above the defaults.
//
// area: options: precedence
// covers: --config; script over config
// args: --config {scripts}/data/config.json
// order: any
// compare: points
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = { userAgent: 'from-script' };
export default function () {
  say('agent', http.get(`${__ENV.BASE}/echo`).json('headers.user-agent'));
}
