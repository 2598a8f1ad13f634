// Values that make no sense: exit 104.
//
// area: bad input
// covers: negative VUs; rate without VUs
// exit: 104
// compare: errors
export const options = { scenarios: {
  a: { executor: 'constant-arrival-rate', rate: 0, duration: '1s' },
  b: { executor: 'constant-vus', vus: -1, duration: '1s' },
  'bad name!': { executor: 'shared-iterations' },
} };
export default function () {}
