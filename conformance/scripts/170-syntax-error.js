// A syntax error: named with its line, exit 107.
//
// area: bad input
// covers: syntax error
// exit: 107
// compare: errors
// mentions: 170-syntax-error.js
// mentions: 11:18
import http from 'k6/http';
export default function () {
  const broken = ;
}
