//! `URL` against another implementation of the standard; `URLSearchParams` by examples.

use std::fmt::Write as _;

use super::{check_table, run_with, value_of};

/// Rust's `url` crate follows the same standard, so it says what is right.
#[test]
fn urls_agree_with_the_standard() {
    let bases =
        ["", "http://base.com/a/b/c?q#f", "file:///x/y/z", "foo:opaque", "http://u:p@h:81/x/"];
    let inputs = include_str!("urls.txt");
    let inputs: Vec<String> = inputs.lines().map(|line| line.replace("\\t", "\t")).collect();
    assert!(inputs.len() > 100, "the list of inputs is there");
    let given = serde_json::json!({ "bases": bases, "inputs": inputs }).to_string();
    let ours = run_with(
        "const { bases, inputs } = JSON.parse(given);
         const parts = (u) => [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname,
           u.port, u.pathname, u.search, u.hash, [...u.searchParams].join('|')].join(' ');
         answer(bases.flatMap((base) => inputs.map((input) => {
           try { return parts(base ? new URL(input, base) : new URL(input)) }
           catch (e) { return e instanceof TypeError ? 'none' : `${e}` }
         })).join('\\n'))",
        &given,
    );
    let mut right = String::new();
    for base in bases {
        for input in &inputs {
            let parsed = match base {
                "" => url::Url::parse(input),
                _ => url::Url::parse(base).and_then(|base| base.join(input)),
            };
            let line = parsed.map_or_else(|_| "none".into(), |url| parts_of(&url));
            writeln!(right, "{line}").expect("memory");
        }
    }
    let cases = bases.iter().flat_map(|base| inputs.iter().map(move |input| (base, input)));
    let wrong: Vec<_> = ours
        .lines()
        .zip(right.lines())
        .zip(cases)
        .filter(|((ours, right), _)| ours != right)
        .map(|((ours, right), (base, input))| {
            format!("{input:?} against {base:?}\n  ours  {ours}\n  right {right}")
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn parts_of(url: &url::Url) -> String {
    let pairs: Vec<_> = url.query_pairs().map(|(name, value)| format!("{name},{value}")).collect();
    let quirks = url::quirks::href;
    [
        quirks(url),
        &url::quirks::origin(url),
        url::quirks::protocol(url),
        url::quirks::username(url),
        url::quirks::password(url),
        url::quirks::host(url),
        url::quirks::hostname(url),
        url::quirks::port(url),
        url::quirks::pathname(url),
        url::quirks::search(url),
        url::quirks::hash(url),
        &pairs.join("|"),
    ]
    .join(" ")
}

#[test]
fn urls_can_be_changed() {
    let set = |start: &str, part: &str, value: &str| {
        value_of(&format!(
            "(() => {{ const u = new URL({start:?}); u.{part} = {value:?}; return u.href }})()"
        ))
    };
    let start = "https://u:p@h:8443/a?b=1#c";
    for (part, value, expected) in [
        ("href", "http://n/x", "http://n/x"),
        ("protocol", "http", "http://u:p@h:8443/a?b=1#c"),
        ("protocol", "foo", start),
        ("host", "new:99", "https://u:p@new:99/a?b=1#c"),
        ("host", "new", "https://u:p@new:8443/a?b=1#c"),
        ("host", "new:443", "https://u:p@new/a?b=1#c"),
        ("hostname", "nn", "https://u:p@nn:8443/a?b=1#c"),
        ("hostname", "a b", start),
        ("port", "", "https://u:p@h/a?b=1#c"),
        ("port", "12x", "https://u:p@h:12/a?b=1#c"),
        ("port", "99999", start),
        ("pathname", "x/../y z", "https://u:p@h:8443/y%20z?b=1#c"),
        ("search", "q=a b", "https://u:p@h:8443/a?q=a%20b#c"),
        ("search", "", "https://u:p@h:8443/a#c"),
        ("hash", "x y", "https://u:p@h:8443/a?b=1#x%20y"),
        ("hash", "", "https://u:p@h:8443/a?b=1"),
        ("username", "me@x", "https://me%40x:p@h:8443/a?b=1#c"),
        ("password", "", "https://u@h:8443/a?b=1#c"),
    ] {
        assert_eq!(set(start, part, value), expected, "{part} = {value:?}");
    }
    check_table(&[
        (
            "(() => { const u = new URL('http://h/?a=1#z'), seen = [];
                u.searchParams.append('b', 'x y'); seen.push(u.href);
                u.search = '?q=1'; seen.push(u.searchParams.get('q'), u.searchParams.get('a'));
                u.searchParams.delete('q'); seen.push(u.href);
                u.href = 'http://o/?z=9'; seen.push(`${u.searchParams}`);
                return seen.concat(JSON.stringify({ u })) })()",
            r#"["http://h/?a=1&b=x+y#z","1",null,"http://h/#z","z=9","{\"u\":\"http://o/?z=9\"}"]"#,
        ),
        ("new URL('nonsense')", "TypeError: Invalid URL: nonsense"),
        ("new URL('/x', 'nonsense')", "TypeError: Invalid base URL: nonsense"),
        ("[URL.canParse('a:b'), URL.canParse('b')]", "[true,false]"),
    ]);
}

#[test]
fn search_parameters_are_a_list() {
    check_table(&[
        ("`${new URLSearchParams('?a=1&b=x%20y&a=%2B')}`", "a=1&b=x+y&a=%2B"),
        ("`${new URLSearchParams({ a: 1, 'ä b': '&=' })}`", "a=1&%C3%A4+b=%26%3D"),
        ("`${new URLSearchParams([['a', 'b'], ['a', 'c']])}`", "a=b&a=c"),
        ("`${new URLSearchParams(new URLSearchParams('x=1'))}`", "x=1"),
        ("new URLSearchParams([['a']])", "TypeError: URLSearchParams takes pairs of a name and a value"),
        (
            "(() => { const p = new URLSearchParams('a=1&b=2&a=3'); const seen = [p.size, p.get('a'), p.getAll('a'),
                p.has('b'), p.has('a', '9'), p.get('z')];
                p.set('a', 'Z'); p.append('0', '*-._~'); p.sort(); seen.push(`${p}`);
                p.delete('b', 'no'); p.delete('a'); seen.push(`${p}`, [...p.keys()], [...p.values()]);
                p.forEach((value, name) => seen.push(name + value)); return seen })()",
            concat!(
                r#"[3,"1",["1","3"],true,false,null,"0=*-._%7E&a=Z&b=2","0=*-._%7E&b=2","#,
                r#"["0","b"],["*-._~","2"],"0*-._~","b2"]"#
            ),
        ),
        ("[...new URLSearchParams('a=%zz&b=%ff&c=%E4%BD%A0&&=x&d')]",
            "[[\"a\",\"%zz\"],[\"b\",\"\u{FFFD}\"],[\"c\",\"你\"],[\"\",\"x\"],[\"d\",\"\"]]"),
    ]);
}
