// A module of k6 that does not exist.
//
// area: bad input
// covers: unknown k6 module
// exit: 107
// compare: errors
// mentions: k6/nonsense
import x from 'k6/nonsense';
export default function () {}
