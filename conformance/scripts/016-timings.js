// The parts of a request's time: which there are, and that they make sense.
//
// area: k6/http: response
// covers: Response.timings; http_req_duration; http_req_waiting; http_req_receiving
// range: http_req_duration.max 300..1500
// range: http_req_waiting.max 195..1500
// range: http_req_receiving.max 195..1500
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const t = http.get(`${__ENV.BASE}/delay/200`).timings;
  say('Response.timings', Object.keys(t).sort());
  say('numbers', Object.values(t).every((v) => typeof v === 'number' && v >= 0));
  say('sum', Math.abs(t.sending + t.waiting + t.receiving - t.duration) < 0.01);
  say('waiting', t.waiting > 190 && t.waiting < 1500);
  const slow = http.get(`${__ENV.BASE}/slow-body/300`).timings;
  say('receiving', [slow.receiving > 250, slow.waiting < 250]);
  say('reused', [slow.connecting, slow.tls_handshaking, slow.looking_up]);
}
