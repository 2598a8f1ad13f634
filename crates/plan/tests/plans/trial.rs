//! Mistakes of new users that were silent, misleading or half explained, each with its words.

use plan::{Format, ReadOptions, read_str};

use super::{check, problems, try_read, with_steps};

fn first(yaml: &str) -> String {
    problems(yaml).into_iter().next().unwrap_or_default()
}

#[test]
fn a_threshold_on_what_no_step_feeds_is_refused() {
    let yaml = "target: http://localhost\nmetrics: { basket: trend }\nworkflows:\n- { name: main, \
                steps: [ { name: home, get: / } ] }\nthresholds:\n- { metric: basket, hold: p(95) < 100 }\n\
                - { metric: checks, hold: rate > 99% }\n";
    check(
        yaml,
        &[
            "6:13 `basket` has a threshold, and no step records it [thresholds[0].metric] / add `record:",
            "7:13 `checks` has a threshold, and no step has a check [thresholds[1].metric] / add one",
        ],
    );
}

#[test]
fn a_condition_without_a_reference_is_refused() {
    let found = first(&with_steps("- { get: /, when: \"role == 'admin'\" }"));
    assert!(found.contains("has no reference, so it is always the same"), "{found}");
    assert!(found.contains("`${role} == 'admin'`"), "{found}");
    assert!(problems(&with_steps("- { get: /, when: false }")).is_empty(), "a step switched off");
    let quotes = first(&with_steps("- { get: /, when: \"${vu.id} == ‘1’\" }"));
    assert!(quotes.contains("typographic quotes"), "{quotes}");
}

#[test]
fn a_check_that_cannot_fail_is_refused() {
    for (made, cannot_fail) in [
        ("{ body: { matches: \".*\" } }", true),
        ("{ body: { matches: \"(ok)?\" } }", true),
        ("{ body: { contains: \"\" } }", true),
        ("{ body: { size: \">= 0\" } }", true),
        ("{ status: [2xx, 3xx, 4xx, 5xx] }", true),
        ("{ status: 100..599 }", true),
        ("{ latency: \"> 0ms\" }", true),
        ("{ body: { matches: \"^$\" } }", false),
        ("{ body: { matches: ok } }", false),
        ("{ status: [2xx, 3xx, 4xx] }", false),
    ] {
        let found = first(&with_steps(&format!("- {{ get: /, check: {made} }}")));
        assert_eq!(found.contains("this check cannot fail"), cannot_fail, "{made}: {found}");
    }
}

#[test]
fn typographic_quotes_are_reported_unless_real_ones_stand_around() {
    let found = first(&with_steps("- { get: /, headers: { accept: “application/json” } }"));
    assert!(found.contains("these quotes are typographic"), "{found}");
    let meant = with_steps("- { get: /, headers: { accept: \"“a”\" } }");
    assert!(problems(&meant).is_empty(), "{:?}", problems(&meant));
}

#[test]
fn a_body_file_with_references_is_refused_rendered_or_meant() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("order.json"), "{ \"token\": \"${token}\" }").unwrap();
    std::fs::write(folder.path().join("other.json"), "{ \"a\": \"${unknown}\" }").unwrap();
    let read = |step: &str| {
        let text = format!(
            "target: http://localhost\nvars: {{ token: a }}\nworkflows:\n- {{ name: main, steps: [ {{ post: /, \
             {step} }} ] }}\n"
        );
        read_str(&text, Format::Yaml, folder.path(), &ReadOptions::new(&|_| None))
    };
    let found = read("file: order.json").unwrap_err().to_string();
    assert!(
        found.contains("the file contains `${token}`, and files are sent as they are"),
        "{found}"
    );
    assert!(found.contains("render: true"), "{found}");
    let part = read("multipart: { a: { file: order.json } }").unwrap_err().to_string();
    assert!(part.contains("files are sent as they are"), "{part}");
    read("file: order.json, render: false").unwrap();
    read("file: other.json").unwrap();
    let plan = read("file: order.json, render: true").unwrap();
    let plan::Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
    assert!(matches!(&request.body, plan::Body::Raw(body) if body.references().count() == 1));
}

#[test]
fn a_scheme_that_would_be_sent_twice_is_refused() {
    for step in [
        "auth: { bearer: \"Bearer ${uuid}\" }",
        "auth: { bearer: \"bearer abc\" }",
        "auth: { basic: { user: \"Basic ann\", password: b } }",
        "headers: { authorization: \"Bearer Bearer ${uuid}\" }",
    ] {
        let found = first(&with_steps(&format!("- {{ get: /, {step} }}")));
        assert!(found.contains("twice"), "{step}: {found}");
    }
    let right = "- { get: /, headers: { authorization: \"Bearer ${uuid}\" } }";
    assert!(problems(&with_steps(right)).is_empty());
}

#[test]
fn a_list_written_as_a_map_and_a_check_as_an_expression_get_the_right_form() {
    let workflows = "target: http://localhost\nworkflows:\n  browse:\n    steps: [ { get: / } ]\n";
    assert!(first(workflows).contains("write `- name: browse`"), "{}", first(workflows));
    let item = "target: http://localhost\nworkflows:\n  - browse:\n      steps: [ { get: / } ]\n";
    assert!(
        problems(item).iter().any(|one| one.contains("`name: browse`")),
        "{:?}",
        problems(item)
    );
    for (written, right) in [
        ("status == 200", "`check: { status: 200 }`"),
        ("r.status === 200", "`check: { status: 200 }`"),
        ("200", "`check: { status: 200 }`"),
        ("$.items > 0", "`check: { json: $.items, is: \"> 0\" }`"),
        ("$.length > 0", "`check: { json: \"$[0]\", exists: true }`"),
        ("$.role == 'admin'", "`check: { json: $.role, equals: \"admin\" }`"),
        ("body contains tea", "body: { contains: TEXT }"),
        ("all good", "a check is a map"),
    ] {
        let found = first(&with_steps(&format!("- {{ get: /, check: [ \"{written}\" ] }}")));
        assert!(found.contains(right), "{written}: {found}");
    }
}

#[test]
fn a_key_at_the_wrong_place_is_told_where_it_belongs() {
    let yaml = with_steps("- get: /\n  thresholds: []");
    assert!(first(&yaml).contains("belongs to the plan itself"), "{}", first(&yaml));
    let toml = "target = \"http://localhost\"\n[[workflows]]\nname = \"main\"\n[[workflows.steps]]\nget = \
                \"/\"\nthresholds = []\n";
    let found = try_read(toml, Format::Toml).unwrap_err().to_string();
    assert!(found.contains("put it above `[[workflows]]`, the first of the headers"), "{found}");
}

#[test]
fn comments_and_commas_in_json_are_told_at_once() {
    let json = "{\n  // mine\n  \"target\": \"http://localhost\",\n  \"workflows\": [ { \"name\": \"a\", \
                \"steps\": [ { \"get\": \"/\" }, ] } ],\n}\n";
    let found = try_read(json, Format::Json).unwrap_err();
    let messages: Vec<&str> = found.0.iter().map(|one| one.message.as_str()).collect();
    let expect = [
        "JSON has no comments",
        "this comma before `]` is one too many",
        "this comma before `}` is one too many",
    ];
    assert_eq!(messages, expect);
    let quotes = try_read("{ 'target': 1 }", Format::Json).unwrap_err().to_string();
    assert!(quotes.contains("JSON's quotes are \""), "{quotes}");
}

#[test]
fn data_files_that_are_not_what_they_seem_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(folder.path().join("users.csv"), bytes).unwrap();
        let text = "target: http://localhost\ndata: { users: users.csv }\nworkflows:\n- { name: main, steps: \
                    [ { get: \"/${data.users.name}/${data.users.password}\" } ] }\n";
        let read = read_str(text, Format::Yaml, folder.path(), &ReadOptions::new(&|_| None));
        read.map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    assert_eq!(read(b"name,password\nann,x\n"), "");
    assert!(read(b"\xff\xfen\0a\0").contains("iconv -f UTF-16"));
    let bare = read(b"amara,arama-1000\nbruno,onurb-1037\n");
    assert!(bare.contains("put a line `name,password` above it"), "{bare}");
    assert!(!bare.contains("arama-1000"), "no passwords: {bare}");
    let ragged = read(b"name,password\nbruno,p,w\n");
    assert!(
        ragged.contains(":2: 3 fields, and the header has 2 (the line begins `bruno,`)"),
        "{ragged}"
    );
    assert!(ragged.contains("in quotes: `\"p,w\"`"), "{ragged}");
}

#[test]
fn an_unknown_key_of_a_load_is_told_before_its_consequence() {
    let yaml = "target: http://localhost\nworkflows:\n- { name: a, load: { vus: 2, run_time: 3s }, steps: [ { \
                get: / } ] }\n";
    let found = problems(yaml);
    assert!(found.len() == 1 && found[0].contains("run_time"), "{found:?}");
}

#[test]
fn a_key_that_does_not_fit_its_certificate_is_found_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (name, what) in [("a.pem", "CERTIFICATE"), ("b.pem", "PRIVATE KEY")] {
        std::fs::write(folder.path().join(name), format!("-----BEGIN {what}-----\n")).unwrap();
    }
    let text = "target: https://localhost\ndefaults: { tls: { certificate: a.pem, key: b.pem } }\nworkflows:\n- \
                { name: a, steps: [ { get: / } ] }\n";
    let fits =
        |_: &std::path::Path, _: &std::path::Path| Err("b.pem is not the key of a.pem".to_owned());
    let options = ReadOptions { key_fits: Some(&fits), ..ReadOptions::new(&|_| None) };
    let found = read_str(text, Format::Yaml, folder.path(), &options).unwrap_err();
    let one = &found.0[0];
    assert_eq!((one.line, one.path.as_str()), (2, "defaults.tls.key"));
    assert_eq!(one.message, "b.pem is not the key of a.pem");
}
