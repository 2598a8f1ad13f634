// handleSummary that returns an empty object prints nothing.
//
// area: summary
// covers: handleSummary returning {}
// compare: stdout
export default function () {}
export function handleSummary() { return {}; }
