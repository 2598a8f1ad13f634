//! The three formats, and their corners.

use std::path::Path;

use plan::{Action, Body, Format, MultipartValue, Plan, Problems};

use super::{read, try_read};

fn check(text: &str, format: Format, expect: &str) {
    let shown = match try_read(text, format) {
        Ok(_) => "ok".into(),
        Err(Problems(all)) => format!("{}:{} {}", all[0].line, all[0].column, all[0].message),
    };
    assert!(shown.starts_with(expect), "{text}\n{shown}");
}

fn body(plan: &Plan) -> String {
    let Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
    let Body::Json(body) = &request.body else { panic!() };
    body.as_literal().expect("no references").to_owned()
}

#[test]
fn malformed_files_say_where() {
    check("name: [a", Format::Yaml, "1:9 not valid YAML");
    check("a: b: c", Format::Yaml, "1:5 not valid YAML");
    check("", Format::Yaml, "0:0 the plan is empty");
    check("# nothing\n", Format::Yaml, "0:0 the plan is empty");
    check("---\nname: a\n---\nname: b", Format::Yaml, "3:1 a second document");
    check("a: *nope", Format::Yaml, "1:4 not valid YAML");
    check("name = \"a", Format::Toml, "1:8 not valid TOML");
    check("name = a", Format::Toml, "1:8 not valid TOML");
    check("a = 1\na = 2", Format::Toml, "2:1 not valid TOML: duplicate key");
    check("{\"name\": }", Format::Json, "1:10 not valid JSON: expected a value, found `}`");
    check("{\"name\": \"a\"", Format::Json, "1:13 not valid JSON: expected `,` or `}`, found the");
    check("{\"name\": \"a", Format::Json, "1:10 not valid JSON: this string has no end");
    check("{name: 1}", Format::Json, "1:2 not valid JSON: expected a key in double quotes");
    check("{} {}", Format::Json, "1:4 not valid JSON: expected the end of the file");
    check("[01]", Format::Json, "1:2 not valid JSON: expected a value");
    check("{\"a\": 1, \"a\": 2}", Format::Json, "1:1 the key `workflows` is missing");
}

#[test]
fn json_knows_tabs_escapes_and_surrogate_pairs() {
    let text = "{\n\t\"target\": \"http://a\",\n\t\"workflows\": [{ \"name\": \"\\u0061\", \
                \"steps\": [{\"get\": \"/\", \"json\": {\"smile\": \"\\ud83d\\ude00\\t\"}}]}]}";
    let plan = try_read(text, Format::Json).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(plan.workflows[0].name, "a");
    assert_eq!(body(&plan), "{\"smile\":\"😀\\t\"}");
    check("{\"a\": \"\\ud83d\"}", Format::Json, "1:7 not valid JSON");
}

#[test]
fn columns_are_counted_in_characters() {
    check("name: \"äöü😀\"\nx: 1\nworkflows: []", Format::Yaml, "2:1 unknown key `x`");
    check("{\"näme😀\": 1, \"workflows\": []}", Format::Json, "1:2 unknown key `näme😀`");
    check("{\"name\": \"ä😀\", \"y\": 1, \"workflows\": []}", Format::Json, "1:16 unknown key `y`");
    check("name = \"ä😀\" \nworkflows = []\nz = 1", Format::Toml, "2:13 the plan has no workflows");
    check("\u{feff}x: 1\nworkflows: []", Format::Yaml, "1:1 unknown key `x`");
    check("name: a\r\nx: 1\r\nworkflows: []", Format::Yaml, "2:1 unknown key `x`");
}

#[test]
fn the_format_is_guessed_where_the_ending_does_not_tell() {
    for (path, text, expect) in [
        ("a.yaml", "{}", Format::Yaml),
        ("a.YML", "{}", Format::Yaml),
        ("a.toml", "", Format::Toml),
        ("a.json", "", Format::Json),
        ("plan", "{ \"a\": 1 }", Format::Json),
        ("plan", "# c\n\nname = \"a\"", Format::Toml),
        ("plan", "[workflows]", Format::Toml),
        ("plan", "name: a = b", Format::Yaml),
        ("plan", "", Format::Yaml),
    ] {
        assert_eq!(Format::of(Path::new(path), text), expect, "{path} {text}");
    }
}

#[test]
fn anchors_and_merge_keys_work() {
    let yaml = "x-base: &base { get: /a, headers: { a: b } }\ntarget: http://a\nworkflows:\n\
                - name: a\n  steps: [ { <<: *base, name: one }, \
                { <<: [*base], name: two, get: /b } ]";
    let plan = read(yaml);
    let url = |index: usize| match &plan.workflows[0].steps[index].action {
        Action::Request(request) => (request.url.as_literal().unwrap(), request.headers.len()),
        _ => panic!(),
    };
    assert_eq!((url(0), url(1)), (("/a", 1), ("/b", 1)));
}

#[test]
fn json_bodies_keep_their_values() {
    let json = |text: &str| {
        let yaml = format!(
            "target: http://a\nworkflows:\n- name: a\n  steps:\n  - post: /\n    json: {text}"
        );
        body(&read(&yaml))
    };
    for (input, expect) in [
        ("{ a: 1, b: [true, null, 1.50], c: x }", r#"{"a":1,"b":[true,null,1.50],"c":"x"}"#),
        ("{ a: 0x1F, b: 1., c: '1', d: 7, e: .5 }", r#"{"a":31,"b":1.0,"c":"1","d":7,"e":0.5}"#),
        ("\"quote \\\" and \\n\"", r#""quote \" and \n""#),
        ("{ 'k\"ey': v }", r#"{"k\"ey":"v"}"#),
        ("[]", "[]"),
        ("!!str 5", "\"5\""),
    ] {
        assert_eq!(json(input), expect, "{input}");
    }
}

#[test]
fn a_lone_raw_reference_stands_without_quotes() {
    let yaml = super::with_steps(
        "- set: { n: 1 }\n\
         - { post: /, json: { a: \"${n | raw}\", b: \"${n}\", c: \"x${n | raw}\" } }",
    );
    let plan = read(&yaml);
    let Action::Request(request) = &plan.workflows[0].steps[1].action else { panic!() };
    let Body::Json(body) = &request.body else { panic!() };
    let text: String = body
        .parts
        .iter()
        .map(|part| match part {
            plan::template::Part::Text(text) => text.as_str(),
            plan::template::Part::Reference(_) => "@",
        })
        .collect();
    // A variable alone has quotes of its own, unless it was extracted from JSON.
    assert_eq!(text, r#"{"a":@,"b":@,"c":"x@"}"#);
    let escapes: Vec<_> = body.references().map(|reference| reference.escape).collect();
    use plan::template::Escape::{Json, JsonValue};
    assert_eq!(escapes, [Json, JsonValue, Json]);
}

#[test]
fn all_kinds_of_bodies_are_read() {
    let steps = "- { post: /, form: { a: b } }\n- { post: /, body: text }\n\
                 - { post: /, file: users.csv }\n\
                 - { post: /, multipart: { a: b, \
                 f: { file: users.csv, content_type: text/csv } } }";
    let plan = read(&super::with_steps(steps));
    let bodies: Vec<&Body> = plan.workflows[0]
        .steps
        .iter()
        .map(|step| match &step.action {
            Action::Request(request) => &request.body,
            _ => panic!(),
        })
        .collect();
    assert!(matches!(bodies[0], Body::Form(form) if form.len() == 1));
    assert!(matches!(bodies[1], Body::Raw(raw) if raw.as_literal() == Some("text")));
    assert!(matches!(bodies[2], Body::File(path) if path.is_absolute()));
    let Body::Multipart(fields) = bodies[3] else { panic!() };
    assert!(matches!(&fields[1].value, MultipartValue::File(path) if path.is_file()));
}
