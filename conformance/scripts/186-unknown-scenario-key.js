// A key that the executor does not have: exit 104.
//
// area: bad input
// covers: unknown scenario key
// exit: 104
// compare: errors
// mentions: iteratons
export const options = { scenarios: { s: { executor: 'shared-iterations', iteratons: 2 } } };
export default function () {}
