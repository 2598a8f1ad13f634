// --no-thresholds: nothing fails.
//
// area: thresholds
// covers: --no-thresholds
// args: --no-thresholds
import { Counter } from 'k6/metrics';
const c = new Counter('cc');
export const options = { thresholds: { cc: ['count>100'] } };
export default function () { c.add(1); }
