// A whole script: a page with its assets, session cookies, think time.
//
// area: whole scripts
// covers: page with assets; session cookie; think time
import http from 'k6/http';
import { check, sleep, group } from 'k6';
export const options = {
  vus: 2, iterations: 4, batchPerHost: 4,
  thresholds: { 'group_duration{group:::front page}': ['avg<3000'], http_reqs: ['count==28'] },
};
export default function () {
  const B = __ENV.BASE;
  group('front page', () => {
    http.get(`${B}/cookies/set?session=s1`);
    const assets = http.batch([
      ['GET', `${B}/bytes/2000`, null, { tags: { type: 'image' }, responseType: 'none' }],
      ['GET', `${B}/gzip`, null, { tags: { type: 'script' } }], ['GET', `${B}/text`],
    ]);
    check(assets, { 'assets came': (a) => a.every((r) => r.status === 200) });
  });
  sleep(Math.random() * 0.05);
  group('account', () => {
    const res = http.get(`${B}/redirect-here/302/cookies`);
    check(res, { 'logged in': (r) => r.json('cookie') === 'session=s1' });
    const jar = http.cookieJar();
    check(
      jar.cookiesForURL(B),
      { 'jar has it': (c) => c.session !== undefined && c.session[0] === 's1' }
    );
  });
  http.get(`${B}/echo?lang=de`, { cookies: { session: { value: 'other', replace: true } } });
}
