// import of a JSON file: k6 refuses it, so scripts use open.
//
// area: modules
// covers: import of JSON
// exit: 107
// without: results
// compare: errors
import data from './lib/plain.json';
export default function () { console.log('RESULT ' + data.title); }
