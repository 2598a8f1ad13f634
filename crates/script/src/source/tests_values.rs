//! Conditions that JavaScript takes and answers with the same word always; and those that are
//! right.

use super::parse::{Language, parse};

const HEAD: &str = "import http from 'k6/http'; import { check } from 'k6'; \
                    import { Rate } from 'k6/metrics'; import { fail } from 'k6';\n";

fn said(text: &str) -> String {
    let text = format!("{HEAD}{text}");
    let hints = parse("a", &text, Language::JavaScript).unwrap().hints;
    let all = hints.of_entry.into_iter().chain(hints.warnings).map(|(_, text)| text);
    all.collect::<Vec<_>>().join("\n")
}

/// `check(http.get('x'), { ok: (r) => ... })`
fn of_check(value: &str) -> String {
    said(&format!("check(http.get('x'), {{ ok: (r) => {value} }});"))
}

#[test]
fn conditions_of_other_languages_are_said_with_the_right_form() {
    for (value, expected) in [
        (
            "200 <= r.status < 300",
            "`200 <= r.status < 300` compares true or false with 300, which is always true; write \
             `200 <= r.status && r.status < 300`",
        ),
        ("1 < r.status > 400", "which is always false"),
        ("r.status >= 200 < 300", "write `r.status >= 200 && r.status < 300`"),
        ("r.status in [200, 201]", "write `[200, 201].includes(r.status)`"),
        ("r.status == 200 | 201", "`r.status == 200 || r.status == 201`"),
    ] {
        let said = of_check(value);
        assert!(said.contains(expected), "{value}: {said:?}");
    }
    for value in [
        "200 <= r.status && r.status < 300",
        "(r.status < 300) === true",
        "'id' in r.json()",
        "r.status in { 200: 1 }",
        "((r.status === 200) | (r.status === 201)) === 1",
        "(r.status & 200) === 200",
    ] {
        assert_eq!(of_check(value), "", "{value}");
    }
}

#[test]
fn a_check_whose_value_says_nothing_is_said() {
    for (value, expected) in [
        ("[200, 201].indexOf(r.status)", "write `[200, 201].includes(r.status)`"),
        ("r.body.indexOf('kettle')", "write `r.body.includes('kettle')`"),
        ("r.status === 200 && r.body.indexOf('a')", "is -1, which counts as true"),
        ("r.body.search(/a/)", "`r.body.search(/a/) !== -1`"),
        ("r.body.includes", "`r.body.includes` is a function"),
        ("r.json", "`r.json` is a function"),
        ("{ return r.body.includes; }", "is a function"),
        ("() => r.status === 200", "gives back a function"),
        ("[r.status === 200]", "gives back a list"),
    ] {
        let said = of_check(value);
        assert!(said.contains(expected), "{value}: {said:?}");
    }
    let own = "function isOk(r) { return r.status === 200; }\n";
    assert!(
        said(&format!("{own}check(http.get('x'), {{ ok: (r) => isOk }});")).contains("isOk(...)")
    );
    assert_eq!(said(&format!("{own}check(http.get('x'), {{ ok: isOk }});")), "");
    for value in [
        "r.body.indexOf('a') !== -1",
        "~r.body.indexOf('a')",
        "r.body.includes('a')",
        "r.body.match(/a/)",
        "r.json('items').find((one) => one.id === 1)",
        "r.body.length",
        "r.json()",
        "isOk",
    ] {
        assert_eq!(of_check(value), "", "{value}");
    }
}

#[test]
fn a_cookie_that_is_read_as_if_it_came_once_is_said() {
    let text = "const r = http.get('x'); f(r.cookies.session.value);";
    assert!(said(text).contains("cookies.session[0].value"), "{}", said(text));
    assert_eq!(said("const r = http.get('x'); f(r.cookies.session[0].value, r.cookies.a);"), "");
}

#[test]
fn a_rate_to_which_nothing_but_true_is_added_is_said() {
    let made = "const errors = new Rate('errors');\n";
    let text = format!("{made}export default () => {{ if (http.get('x').error) errors.add(1); }};");
    assert!(said(&text).contains("100 % whatever happens"), "{}", said(&text));
    for rest in [
        "export default () => { errors.add(http.get('x').status !== 200); };",
        "export default () => { const r = http.get('x'); if (r.error) errors.add(1); else errors.add(0); };",
        "export default () => { if (a) errors.add(true); help(errors); };",
        "export default () => { errors.add(true); };",
    ] {
        assert_eq!(said(&format!("{made}{rest}")), "", "{rest}");
    }
}

#[test]
fn a_loop_without_an_end_in_an_iteration_is_said() {
    for text in [
        "export default function () { while (true) { http.get('x'); } }",
        "export const main = () => { for (;;) { http.get('x'); } };",
        "export default () => { if (a) { do { http.get('x'); } while (1); } };",
    ] {
        assert!(said(text).contains("this loop has no end"), "{text}: {}", said(text));
    }
    for text in [
        "export default function () { while (true) { if (http.get('x').status) break; } }",
        "export default function () { for (;;) { if (a()) { return; } } }",
        "export default function () { while (true) { if (a()) fail('b'); http.get('x'); } }",
        "export default function () { while (a()) { http.get('x'); } }",
        "export default function () { const all = []; for (;;) { all.push(new Array(1000)); } }",
        "function help() { while (true) { http.get('x'); } } export default () => {};",
    ] {
        assert_eq!(said(text), "", "{text}");
    }
}
