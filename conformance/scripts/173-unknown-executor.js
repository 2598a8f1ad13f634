// An executor that does not exist: exit 104.
//
// area: bad input
// covers: unknown executor
// exit: 104
// compare: errors
// mentions: constant-vu
export const options = { scenarios: { s: { executor: 'constant-vu', vus: 1, duration: '1s' } } };
export default function () {}
