// Secrets and the browser.
//
// area: modules that Volley does not have
// covers: k6/secrets; k6/browser
import secrets from 'k6/secrets';
import { browser } from 'k6/browser';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () { say('k6/secrets', [typeof secrets, typeof browser]); }
