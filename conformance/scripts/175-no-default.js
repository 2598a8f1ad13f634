// No default function at all.
//
// area: bad input
// covers: missing default export
// exit: 104
// compare: errors
export const options = { iterations: 1 };
export function other() {}
