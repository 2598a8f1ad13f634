// handleSummary throws: the usual summary is printed.
//
// area: summary
// covers: handleSummary that throws
// compare: summary errors
import { check } from 'k6';
export default function () { check(1, { fine: () => true }); }
export function handleSummary() { throw new Error('broken summary'); }
