// A name that nobody knows.
//
// area: k6/http: errors
// covers: unknown host; options.blockHostnames; options.blacklistIPs; options.hosts
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export const options = {
  blockHostnames: ['blocked.example', '*.blocked.example'],
  blacklistIPs: ['10.0.0.0/8'],
  hosts: {
    'shop.example': '127.0.0.1', 'api.example:80': __ENV.BASE.split('/')[2],
    '*.wild.example': '127.0.0.1',
  },
};
export default function () {
  const brief = (url) => {
    const r = http.get(url, { timeout: '20s' });
    return [r.status, r.error_code];
  };
  const port = __ENV.BASE.split(':')[2];
  say('unknown host', brief('http://no-such-host.invalid/')[0]);
  say(
    'options.blockHostnames', [brief('http://blocked.example/'), brief('http://a.blocked.example/')]
  );
  say('options.blacklistIPs', brief('http://10.1.2.3/'));
  const named = http.get(`http://shop.example:${port}/echo`);
  say('options.hosts', [named.status, named.json('headers.host').split(':')[0], named.remote_ip]);
  say('options.hosts port', http.get(`http://api.example/r/${port.split('/')[2]}/`).status);
  say('options.hosts wild', http.get(`http://x.wild.example:${port}/`).status);
}
