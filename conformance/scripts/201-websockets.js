// WebSockets: refused connection only, the target has none.
//
// area: modules that Volley does not have
// covers: k6/ws; k6/experimental/websockets
import ws from 'k6/ws';
import { WebSocket } from 'k6/experimental/websockets';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () { say('k6/ws', [typeof ws.connect, typeof WebSocket]); }
