// Options of the wrong type.
//
// area: bad input
// covers: option of a wrong type
// exit: 104
// compare: errors
export const options = { vus: 'many', duration: '1s' };
export default function () {}
