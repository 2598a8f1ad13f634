// Reading CSV with papaparse.
//
// area: jslib
// covers: papaparse.parse; papaparse.unparse
// volley-only: k6 fetches it over HTTPS, which a closed network does not allow
// result: papaparse.parse [[{"age":"36","name":"ada"},{"age":"40","name":"bob"}],0]
// result: lists [["a","b,c"],["d\"e",""]]
// result: typed [{"n":1,"t":"x"}]
// result: papaparse.unparse "name,age\r\nada,36"
import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
import { SharedArray } from 'k6/data';
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
const people = new SharedArray(
  'people',
  () => papaparse.parse(open('./data/people.csv'), { header: true, skipEmptyLines: true }).data
);
export default function () {
  const direct = papaparse.parse('name,age\nada,36\nbob,40', { header: true });
  say('papaparse.parse', [direct.data, direct.errors.length]);
  say('lists', papaparse.parse('a,"b,c"\n"d""e",').data);
  say('typed', papaparse.parse('n,t\n1,x', { header: true, dynamicTyping: true }).data);
  say('papaparse.unparse', papaparse.unparse([{ name: 'ada', age: 36 }]));
}
