// An extension that is not compiled in: both refuse.
//
// area: bad input
// covers: k6/x extensions
// exit: 107
// compare: errors
// mentions: k6/x/sql
import sql from 'k6/x/sql';
export default function () {}
