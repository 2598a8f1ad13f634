// Two ways of giving the load at once: exit 104.
//
// area: bad input
// covers: mixed load options
// exit: 104
// compare: errors
export const options = { duration: '1s', stages: [{ duration: '1s', target: 1 }], iterations: 5 };
export default function () {}
