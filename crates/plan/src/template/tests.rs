use super::*;

fn show(template: &Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => format!("'{text}'"),
        Part::Reference(one) => {
            let default = one.default.as_ref().map(|d| format!(" default '{d}'"));
            let filter = one.filter.map(|filter| format!(" {filter:?}"));
            let escape = match one.escape {
                Escape::None => String::new(),
                other => format!(" {other:?}"),
            };
            let (default, filter) = (default.unwrap_or_default(), filter.unwrap_or_default());
            format!("{:?}{default}{filter}{escape}", one.source)
        }
    };
    template.parts.iter().map(part).collect::<Vec<_>>().join(" + ")
}

fn check(input: &str, expect: &str) {
    check_at(input, Escape::None, expect);
}

fn check_at(input: &str, escape: Escape, expect: &str) {
    let shown = match Template::parse(input, escape) {
        Ok(template) => show(&template),
        Err(wrong) => format!("error at {}..{}: {}", wrong.start, wrong.end, wrong.message),
    };
    assert_eq!(shown, expect, "{input:?}");
}

#[test]
fn text_and_references_alternate() {
    check("", "");
    check("plain", "'plain'");
    check("Bearer ${token}", r#"'Bearer ' + Variable("token")"#);
    check("${a}${b}", r#"Variable("a") + Variable("b")"#);
    check("a$b {c} $", "'a$b {c} $'");
    check("$${token}", "'${token}'");
    check("$$${x}", r#"'$${x}'"#);
}

#[test]
fn every_source_can_be_named() {
    for (input, expect) in [
        ("${env.REGION}", r#"Env("REGION")"#),
        ("${secret.API_KEY}", r#"Secret("API_KEY")"#),
        ("${secret}", r#"Variable("secret")"#),
        ("${data.users.name}", r#"Data { set: "users", column: "name" }"#),
        ("${use.token}", r#"Use("token")"#),
        ("${steps.login.status}", r#"Step { name: "login", field: Status }"#),
        ("${steps.GET /a.b.body}", r#"Step { name: "GET /a.b", field: Body }"#),
        ("${steps.login.latency_ms}", r#"Step { name: "login", field: LatencyMs }"#),
        ("${uuid}", "Uuid"),
        ("${random.uuid}", "Uuid"),
        ("${random.int(1, 100)}", "RandomInt { min: 1, max: 100 }"),
        ("${random.int(-5,5)}", "RandomInt { min: -5, max: 5 }"),
        ("${random.string(8)}", "RandomString { length: 8 }"),
        ("${random.word}", "RandomWord"),
        ("${timestamp}", "Timestamp(Seconds)"),
        ("${timestamp.ms}", "Timestamp(Milliseconds)"),
        ("${timestamp.iso}", "Timestamp(Iso)"),
        ("${vu.id}", "VuId"),
        ("${vu.iteration}", "VuIteration"),
        ("${iteration}", "Iteration"),
        ("${ token }", r#"Variable("token")"#),
    ] {
        check(input, expect);
    }
}

#[test]
fn defaults_and_filters_follow_the_source() {
    check("${env.R:-eu}", r#"Env("R") default 'eu'"#);
    check("${env.R:-}", r#"Env("R") default ''"#);
    check("${a:-{\"x\":1}}", r#"Variable("a") default '{"x":1}'"#);
    check("${n | raw}", r#"Variable("n") Raw"#);
    check("${n:-1 | upper}", r#"Variable("n") default '1' Upper"#);
}

#[test]
fn in_a_url_the_question_mark_changes_the_escape() {
    let expect = r#"'/a/' + Variable("p") UrlPath + '/b?q=' + Variable("q") UrlQuery"#;
    check_at("/a/${p}/b?q=${q}", Escape::UrlPath, expect);
}

#[test]
fn errors_say_where_and_what_instead() {
    for (input, expect) in [
        ("a ${b", "error at 2..5: this reference has no end"),
        ("${}", "error at 0..3: an empty reference"),
        ("x${random.wrod}", "error at 1..15: unknown generator `random.wrod`"),
        ("${random.int(1)}", "error at 0..16: `1` are not two numbers"),
        ("${random.int(9, 1)}", "error at 0..19: the first number is larger than the second"),
        ("${random.string(0)}", "error at 0..19: `0` is not a length"),
        ("${data.users}", "error at 0..13: which column?"),
        ("${steps.a.size}", "error at 0..15: unknown field `size`"),
        ("${rndom.word}", "error at 0..13: unknown reference `rndom.word`"),
        ("${a | loud}", "error at 0..11: unknown filter `loud`"),
        ("${vu.name}", "error at 0..10: unknown reference `vu.name`"),
        ("${1a}", "error at 0..5: unknown reference `1a`"),
    ] {
        check(input, expect);
    }
    let help = |input| Template::parse(input, Escape::None).unwrap_err().help.unwrap();
    assert_eq!(help("${random.wrod}"), "did you mean `word`?");
    assert_eq!(help("${rndom.word}"), "did you mean `random`?");
    assert_eq!(help("${a | uper}"), "did you mean `upper`?");
}

#[test]
fn values_are_written_as_their_place_needs() {
    for (template, escape, value, expect) in [
        ("${v}", Escape::None, "a \"b\"", "a \"b\""),
        ("${v}", Escape::Json, "a \"b\"\n\u{1}\\", "a \\\"b\\\"\\n\\u0001\\\\"),
        ("${v}", Escape::Url, "/a b?ä", "/a%20b?%C3%A4"),
        ("${v}", Escape::UrlPath, "a b?ä/#", "a%20b%3F%C3%A4/%23"),
        ("${v}", Escape::Header, "a\r\nx: y", "a  x: y"),
        ("${v}", Escape::UrlQuery, "a&b=c+d#e f", "a%26b=c%2Bd%23e%20f"),
        ("${v}", Escape::Component, "a/b&c=d", "a%2Fb%26c%3Dd"),
        ("${v | raw}", Escape::Json, "{\"a\":1}", "{\"a\":1}"),
        ("${v | url}", Escape::None, "a/b", "a%2Fb"),
        ("${v | json}", Escape::None, "a\"b", "a\\\"b"),
        ("${v | base64}", Escape::None, "user:pass", "dXNlcjpwYXNz"),
        ("${v | upper}", Escape::None, "abc", "ABC"),
        ("${v | lower}", Escape::Component, "A/B", "a%2Fb"),
    ] {
        let parsed = Template::parse(template, escape).unwrap();
        let mut written = String::new();
        parsed.references().for_each(|reference| reference.write(value, &mut written));
        assert_eq!(written, expect, "{template} {escape:?}");
    }
}
