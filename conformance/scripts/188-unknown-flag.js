// A flag that does not exist.
//
// area: bad input
// covers: unknown flag
// args: --iteratons 3
// exit: 255
// compare: errors
export default function () {}
