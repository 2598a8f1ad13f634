// handleSummary that returns nothing, or an empty object.
//
// area: summary
// covers: handleSummary returning nothing
// compare: summary
export default function () {}
export function handleSummary() {}
