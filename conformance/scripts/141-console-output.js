// --console-output sends the lines to a file.
//
// area: console
// covers: --console-output
// args: --console-output console.txt --log-format raw
// without: results
export default function () { console.log('first line'); console.warn('second', { a: 1 }); }
