// The rate goes up, stays, goes down: as many arrivals as the area under it.
//
// area: executors
// covers: ramping-arrival-rate; startRate
// range: iterations.count 48..52
export const options = {
  scenarios: {
    open: {
      executor: 'ramping-arrival-rate', startRate: 10, timeUnit: '1s', preAllocatedVUs: 5,
      stages: [
        { target: 30, duration: '1s' }, { target: 20, duration: '0s' },
        { target: 20, duration: '1s' }, { target: 0, duration: '1s' },
      ],
    },
  },
};
export default function () {}
