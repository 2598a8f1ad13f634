// open: text, bytes, relative paths, missing files, outside of init.
//
// area: globals
// covers: open(path); open(path, 'b'); open outside init; open of a missing file
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const text = open('./data/note.txt');
const plain = open('data/config.json');
const bytes = open('./data/note.txt', 'b');
let missing;
try { open('./data/not-there.txt'); missing = 'opened'; } catch (e) { missing = 'thrown'; }
let empty;
try { open(''); empty = 'opened'; } catch (e) { empty = 'thrown'; }
export default function () {
  say('open(path)', text);
  say('json', JSON.parse(plain).vus);
  say("open(path, 'b')", [bytes.byteLength, new Uint8Array(bytes)[0]]);
  say('open of a missing file', [missing, empty]);
  try {
    open('./data/note.txt');
    say('open outside init', 'opened');
  } catch (e) { say('open outside init', 'thrown'); }
}
