// The init part throws: exit 107.
//
// area: bad input
// covers: exception in init
// exit: 107
// compare: errors
// mentions: 180-init-throws.js:9
// mentions: no config
throw new Error('no config');
export default function () {}
