//! Text to rows and back.

use super::check_table;

/// Each outcome is what Papa Parse 5.1.1 gives.
#[test]
fn csv_becomes_rows() {
    check_table(&[
        ("Papa.parse('a,b\\nc,d').data", r#"[["a","b"],["c","d"]]"#),
        ("parse('a,b\\n').data", r#"[["a","b"],[""]]"#),
        ("Papa.parse('a;b\\r\\nc;d').meta", r#"{"delimiter":";","linebreak":"\r\n","aborted":false,"truncated":false,"cursor":8}"#),
        ("Papa.parse('a\\tb\\rc\\td').data", r#"[["a","b"],["c","d"]]"#),
        (r#"Papa.parse('"a,""b""\nc" ,d\n1,2').data"#, r#"[["a,\"b\"\nc","d"],["1","2"]]"#),
        ("Papa.parse('x,y\\n1,2.5\\n-3,1e5\\ntrue,FALSE\\nfoo,', { header: true, dynamicTyping: true }).data",
            r#"[{"x":1,"y":2.5},{"x":-3,"y":100000},{"x":true,"y":false},{"x":"foo","y":null}]"#),
        ("Papa.parse('9007199254740993,2020-01-01T00:00:00Z', { dynamicTyping: true }).data[0].map((v) => typeof v)",
            r#"["string","object"]"#),
        ("Papa.parse('a,b\\n1,2', { header: true, dynamicTyping: { b: true } }).data", r#"[{"a":"1","b":2}]"#),
        ("Papa.parse('\\n\\na,b\\n ,\\n', { skipEmptyLines: true }).data", r#"[["a","b"],[" ",""]]"#),
        ("Papa.parse('\\n\\na,b\\n ,\\n', { skipEmptyLines: 'greedy' }).data", r#"[["a","b"]]"#),
        ("Papa.parse('# c\\na,b\\n#x\\n1,2', { comments: '#', header: true }).data", r#"[{"a":"1","b":"2"}]"#),
        ("Papa.parse('a,b\\n1,2\\n3,4', { header: true, preview: 1 }).data", r#"[{"a":"1","b":"2"}]"#),
        ("Papa.parse('a,b\\n1,2', { transform: (v, i) => v + i }).data", r#"[["a0","b1"],["10","21"]]"#),
        ("Papa.parse('a,b\\n1,2', { header: true, transformHeader: (h) => h.toUpperCase() }).data", r#"[{"A":"1","B":"2"}]"#),
        ("Papa.parse('a,b\\n1,2,3\\n4', { header: true }).data", r#"[{"a":"1","b":"2","__parsed_extra":["3"]},{"a":"4"}]"#),
        ("Papa.parse('a,b\\n1,2,3\\n4', { header: true }).errors.map((e) => `${e.code} ${e.row}`)",
            r#"["TooManyFields 0","TooFewFields 1"]"#),
        ("Papa.parse('\"a').errors.map((e) => e.code)", r#"["MissingQuotes","UndetectableDelimiter"]"#),
        ("Papa.parse('a').errors.map((e) => e.type)", r#"["Delimiter"]"#),
        (r#"Papa.parse('"a"b,c\nd,e').errors.length > 0"#, "true"),
        ("(() => { const seen = []; Papa.parse('a,b\\n1,2\\n3,4\\n5,6', { header: true,
            step: ({ data }, parser) => { seen.push(data.a); if (seen.length === 2) parser.abort() },
            complete: () => seen.push('done') }); return seen })()", r#"["1","3","done"]"#),
        ("Papa.parse(5)", "TypeError: Papa.parse reads strings only; open() the file and pass its text"),
    ]);
}

#[test]
fn rows_become_csv() {
    check_table(&[
        ("Papa.unparse([['a', 'b'], [1, null]])", "a,b\r\n1,"),
        (
            "Papa.unparse([{ a: 1, b: 'x,y' }, { a: 'q\"q', b: ' s' }])",
            "a,b\r\n1,\"x,y\"\r\n\"q\"\"q\",\" s\"",
        ),
        ("Papa.unparse({ fields: ['a', 'b'], data: [[1, 2], [3, 4]] })", "a,b\r\n1,2\r\n3,4"),
        ("Papa.unparse('[{\"a\":1}]')", "a\r\n1"),
        ("Papa.unparse([['a', true]], { quotes: true })", "\"a\",\"true\""),
        ("Papa.unparse([['a', 'b']], { quotes: [true, false] })", "\"a\",b"),
        ("Papa.unparse([{ a: 1 }], { header: false })", "1"),
        ("Papa.unparse([{ a: 1, b: 2 }], { columns: ['b'] })", "b\r\n2"),
        ("Papa.unparse([['a', 'b']], { delimiter: ';', newline: '\\n' })", "a;b"),
        ("Papa.unparse([['=1+1']], { escapeFormulae: true })", "\"'=1+1\""),
        ("Papa.unparse(['a', 'b'])", "Error: Unable to serialize unrecognized input"),
    ]);
}
