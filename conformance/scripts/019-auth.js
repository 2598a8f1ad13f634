// Basic credentials in the address, digest with `auth`.
//
// area: k6/http: params
// covers: basic auth; params.auth: 'digest'; params.auth: 'basic'
import http from 'k6/http';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const withUser = (path, user) => __ENV.BASE.replace('http://', `http://${user}@`) + path;
  const brief = (res) => [res.status, res.body, res.url.replace(/\d{5}/, 'PORT')];
  say('basic auth', brief(http.get(withUser('/basic/ada/pass', 'ada:pass'))));
  say('basic auth wrong', http.get(withUser('/basic/ada/pass', 'ada:no')).status);
  say(
    "params.auth: 'basic'",
    http.get(withUser('/basic/ada/p%40ss', 'ada:p%40ss'), { auth: 'basic' }).status
  );
  const digest = http.get(withUser('/digest/bob/secret', 'bob:secret'), { auth: 'digest' });
  say("params.auth: 'digest'", [digest.status, digest.body]);
  say(
    'digest wrong', http.get(withUser('/digest/bob/secret', 'bob:wrong'), { auth: 'digest' }).status
  );
  say('digest POST', http.post(
    withUser('/digest/bob/secret', 'bob:secret'), 'x', { auth: 'digest' }
  ).status);
  say('no auth', http.get(`${__ENV.BASE}/basic/ada/pass`).status);
  say(
    'header',
    http.get(
      `${__ENV.BASE}/basic/ada/pass`, { headers: { Authorization: 'Basic YWRhOnBhc3M=' } }
    ).status
  );
}
