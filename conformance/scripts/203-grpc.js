// gRPC.
//
// area: modules that Volley does not have
// covers: k6/net/grpc
import grpc from 'k6/net/grpc';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const client = new grpc.Client();
export default function () { say('k6/net/grpc', [typeof client.connect, grpc.StatusOK]); }
