// exec names a function that is not exported: exit 104.
//
// area: bad input
// covers: exec of a missing function
// exit: 104
// compare: errors
// mentions: nowhere
export const options = { scenarios: { s: {
  executor: 'shared-iterations', iterations: 1, exec: 'nowhere',
} } };
export default function () {}
