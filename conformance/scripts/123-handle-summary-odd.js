// handleSummary with values that are no text, and a file in a missing folder.
//
// area: summary
// covers: handleSummary with bad values
// compare: stdout errors
export default function () {}
export function handleSummary() { return {
  stdout: 'fine\n', 'missing/folder/x.txt': 'x', 'number.txt': 5, 'object.txt': { a: 1 },
}; }
