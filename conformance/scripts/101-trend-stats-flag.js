// --summary-trend-stats and --summary-time-unit.
//
// area: options
// covers: --summary-trend-stats; --summary-time-unit
// args: --summary-trend-stats min,p(42),max,count --summary-time-unit us
// compare: summary
import { Trend } from 'k6/metrics';
const t = new Trend('waits', true);
export default function () { t.add(1.5); t.add(2.5); }
