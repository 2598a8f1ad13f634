// The experimental modules.
//
// area: modules that Volley does not have
// covers: k6/experimental/csv; k6/experimental/fs
import { open as openFile } from 'k6/experimental/fs';
import csv from 'k6/experimental/csv';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const file = await openFile('./data/people.csv');
const rows = await csv.parse(file, { delimiter: ',' });
export default async function () {
  say('k6/experimental/fs', (await file.stat()).size);
  say('k6/experimental/csv', rows.length);
}
