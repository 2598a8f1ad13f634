// k6/html: reading pages, forms and links.
//
// area: modules that Volley does not have
// covers: k6/html; Response.html; Response.submitForm; Response.clickLink
import http from 'k6/http';
import { parseHTML } from 'k6/html';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  const res = http.get(`${__ENV.BASE}/html`);
  say('Response.html', res.html('title').text());
  say('k6/html', parseHTML('<p class="x">a</p>').find('.x').text());
  say('Response.submitForm', res.submitForm({ fields: { a: '2' } }).status);
  say('Response.clickLink', res.clickLink().status);
}
