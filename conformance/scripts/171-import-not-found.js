// A file that is not there.
//
// area: bad input
// covers: missing local import
// exit: 107
// compare: errors
// mentions: not-there.js
import { x } from './lib/not-there.js';
export default function () {}
