//! Mistakes of the first hours that were silent or led astray, each with its words.

use std::path::Path;

use plan::{Format, Plan, Problems, ReadOptions, read_str};

use super::{check, problems, read, with_steps};

fn first(yaml: &str) -> String {
    problems(yaml).into_iter().next().unwrap_or_default()
}

/// The warnings of a plan that is legal, a line each.
fn warnings(yaml: &str) -> Vec<String> {
    read(yaml).warnings.iter().map(plan::Problem::in_a_line).collect()
}

fn with_threshold(threshold: &str) -> String {
    format!(
        "target: http://h\nworkflows:\n- {{ name: a, steps: [ {{ name: one, get: /, check: {{ status: 200 }} }} ] }}\n\
         thresholds:\n- {threshold}\n"
    )
}

fn in_folder(folder: &Path, yaml: &str) -> Result<Plan, Problems> {
    read_str(yaml, Format::Yaml, folder, &ReadOptions::new(&|_| None))
}

#[test]
fn a_number_with_a_plus_in_json_is_refused_because_the_plus_would_be_lost() {
    for number in ["+49123", "+1", "+491701234567"] {
        let found = first(&with_steps(&format!("- {{ post: /, json: {{ phone: {number} }} }}")));
        assert!(found.contains(&format!("`{number}` is a number here")), "{found}");
        assert!(found.contains("put quotes around it to keep the plus"), "{found}");
    }
}

#[test]
fn a_content_type_that_contradicts_the_body_is_warned_of_wherever_it_comes_from() {
    let plan = |defaults: &str, workflow: &str, step: &str| {
        format!(
            "target: http://h\ndefaults: {{ headers: {{ {defaults} }} }}\nworkflows:\n- name: a\n  \
             headers: {{ {workflow} }}\n  steps: [ {{ name: one, post: /, {step} }} ]\n"
        )
    };
    let json = "content-type: application/json";
    for (yaml, whose) in [
        (plan("", json, "form: { a: 1 }"), "the workflow's `headers`"),
        (plan(json, "", "multipart: { a: b }"), "`defaults`"),
        (plan("", "", "json: { a: 1 }, headers: { Content-Type: text/plain }"), "its `headers`"),
    ] {
        let found = warnings(&yaml).join("\n");
        assert!(found.contains("`one` sends ") && found.contains(whose), "{yaml}\n{found}");
    }
    for step in ["json: { a: 1 }", "body: x"] {
        assert!(warnings(&plan("", json, step)).is_empty());
    }
    let own = "json: { a: 1 }, headers: { content-type: application/vnd.api+json }";
    assert!(warnings(&plan("", "", own)).is_empty());
}

#[test]
fn a_tag_with_the_name_of_one_that_every_request_has_is_refused() {
    for tag in ["name", "status", "scenario", "step"] {
        let found = first(&with_steps(&format!("- {{ get: /, tags: {{ {tag}: a }} }}")));
        assert!(found.contains(&format!("`{tag}` is a tag that every request has")), "{found}");
        assert!(found.contains("choose another name"), "{found}");
    }
}

#[test]
fn random_rows_cannot_be_exhausted() {
    let yaml = "target: http://h\ndata: { users: { file: users.csv, order: random, when_exhausted: stop } }\n\
                workflows: [ { name: a, steps: [ { get: \"/${data.users.name}\" } ] } ]\n";
    check(yaml, &["2:66 `when_exhausted` has no effect here: `order: random` draws"]);
    assert!(first(yaml).contains("`order: unique-per-iteration`"));
}

#[test]
fn a_bound_that_is_turned_round_is_warned_of() {
    for (threshold, meant) in [
        ("{ metric: http_req_failed, hold: rate > 1% }", "did you mean `rate < 1%`?"),
        ("{ metric: checks, hold: rate < 99% }", "did you mean `rate > 99%`?"),
        ("{ metric: dropped_iterations, hold: count > 1 }", "did you mean `count < 1`?"),
    ] {
        let found = warnings(&with_threshold(threshold)).join("\n");
        assert!(found.contains(meant) && found.contains(":5:"), "{threshold}: {found}");
    }
    assert!(warnings(&with_threshold("{ metric: http_req_failed, hold: rate < 1% }")).is_empty());
    let checked = with_steps("- { get: /, check: { latency: \"> 250ms\" } }");
    let found = warnings(&checked).join("\n");
    assert!(found.contains("did you mean `latency: \"< 250ms\"`?"), "{found}");
}

#[test]
fn a_threshold_takes_a_step_by_k6s_name_for_it_and_refuses_tags_of_single_samples() {
    let plan = read(&with_threshold(
        "{ metric: http_req_duration, tags: { name: one, scenario: a }, hold: p(95) < 1s }",
    ));
    let select = &plan.thresholds[0].select;
    assert_eq!((select.step.as_deref(), select.workflow.as_deref()), (Some("one"), Some("a")));
    for (tag, instead) in [
        ("expected_response: \"true\"", "metric: http_req_failed"),
        ("status: \"200\"", "`check: { status: 200 }`"),
        ("method: GET", "choose by `step: NAME`"),
    ] {
        let threshold =
            format!("{{ metric: http_req_duration, tags: {{ {tag} }}, hold: p(95) < 1s }}");
        let found = first(&with_threshold(&threshold));
        assert!(found.contains("a threshold cannot choose by"), "{found}");
        assert!(found.contains(instead), "{found}");
    }
    let (name, value) = ("expected_response", "true");
    let inside = format!("{{ metric: 'http_req_duration{{{name}:{value}}}', hold: p(95) < 1s }}");
    assert!(first(&with_threshold(&inside)).contains("cannot choose by `expected_response`"));
}

#[test]
fn a_time_without_a_unit_is_shown_in_milliseconds_and_refused_below_one() {
    let found = first(&with_threshold("{ metric: latency, hold: p(95) < 0.2 }"));
    assert!(found.contains("`0.2` has no unit") && found.contains("write `0.2s`"), "{found}");
    let plan = read(&with_threshold("{ metric: latency, hold: p(95) < 200 }"));
    assert_eq!(plan.thresholds[0].text, "p(95) < 200ms");
}

#[test]
fn a_check_of_json_on_an_answer_to_head_can_never_hold() {
    let step = "- { head: /, check: { json: $.error, exists: false } }";
    assert!(first(&with_steps(step)).contains("an answer to HEAD has no body"));
}

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

#[test]
fn files_of_tls_that_hold_something_else_are_refused_when_the_plan_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("c.pem", CERTIFICATE.as_bytes());
    write("k.pem", KEY.as_bytes());
    write("c.der", &[0x30, 0x82, 1, 2]);
    for (tls, message, help) in [
        ("ca: k.pem", "3:24: `k.pem` holds a private key and no certificate", "of the CA"),
        ("ca: c.der", "`c.der` holds nothing in PEM and no certificate", "-inform DER"),
        (
            "certificate: k.pem, key: c.pem",
            "3:33: the certificate and its key are swapped",
            "write `certificate: c.pem, key: k.pem`",
        ),
        ("certificate: k.pem, key: k.pem", "`k.pem` holds a private key", "the certificate"),
        ("certificate: c.pem, key: c.pem", "`c.pem` holds a certificate", "the private key"),
    ] {
        let yaml = format!(
            "name: t\ntarget: https://h\ndefaults: {{ tls: {{ {tls} }} }}\nworkflows: [ {{ name: a, steps: [ \
             {{ get: / }} ] }} ]\n"
        );
        let found = in_folder(folder.path(), &yaml).unwrap_err().to_string();
        assert!(found.contains(message) && found.contains(help), "{tls}: {found}");
    }
}

#[test]
fn a_server_name_that_is_no_name_is_refused_with_the_name() {
    let plan = |name: &str| {
        format!(
            "target: https://h\ndefaults: {{ tls: {{ server_name: \"{name}\" }} }}\nworkflows: [ {{ name: a, \
             steps: [ {{ get: / }} ] }} ]\n"
        )
    };
    for name in ["https://shop.example", "shop.example:443", "shop.example/path"] {
        let found = first(&plan(name));
        assert!(found.contains(&format!("`{name}` is not the name of a server")), "{found}");
        assert!(found.contains("write the name alone: `server_name: shop.example`"), "{found}");
    }
    assert!(first(&plan("shop example")).contains("write a host name"));
    for name in ["shop.example", "localhost", "10.0.0.1", "::1", "a_b.example."] {
        assert_eq!(problems(&plan(name)), [""; 0], "{name}");
    }
}

#[test]
fn an_address_that_this_machine_does_not_have_is_refused_where_it_would_send() {
    let yaml = "target: http://h\ndefaults: { local_addresses: [127.0.0.1, 10.11.12.13] }\n\
                workflows: [ { name: a, steps: [ { get: / } ] } ]\n";
    let is_here = |address: std::net::IpAddr| match address.is_loopback() {
        true => Ok(()),
        false => Err(format!("{address} is not an address of this machine")),
    };
    let none = |_: &str| None;
    let options = ReadOptions { is_here: Some(&is_here), ..ReadOptions::new(&none) };
    let Problems(found) = read_str(yaml, Format::Yaml, Path::new("."), &options).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].line, found[0].column), (2, 42));
    assert_eq!(found[0].message, "10.11.12.13 is not an address of this machine");
    assert!(problems(yaml).is_empty(), "another machine sends");
}

#[test]
fn settings_of_tls_without_a_url_of_https_are_warned_of() {
    let plan = |target: &str| {
        format!(
            "target: {target}\ndefaults: {{ tls: {{ insecure: true }} }}\nworkflows: [ {{ name: a, steps: [ \
             {{ get: / }} ] }} ]\n"
        )
    };
    let found = warnings(&plan("http://h:8443")).join("\n");
    assert!(
        found.contains(":2:13: `tls` has no effect") && found.contains("`https://`"),
        "{found}"
    );
    assert!(warnings(&plan("https://h")).is_empty());
}

#[test]
fn a_blank_that_is_none_is_named_where_it_stands() {
    let found = first("name: x\ntarget:\u{a0}http://h\nworkflows:\n  - name: a\n");
    assert!(found.starts_with("2:8 a no-break space (U+00A0) stands here"), "{found}");
    assert!(found.contains("write a blank in its place"), "{found}");
    let found = first(&with_steps("- { get: /search\u{a0} }"));
    assert!(found.contains("a no-break space (U+00A0)"), "{found}");
    let meant = with_steps("- { get: /, headers: { x-a: \"10\u{a0}km\" } }");
    assert!(problems(&meant).is_empty(), "{:?}", problems(&meant));
}

#[test]
fn slips_of_yaml_are_answered_with_what_to_write() {
    let found = first(&with_steps("- { get: /, extract: { id: { regex: \"id:(\\d+)\" } } }"));
    assert!(found.starts_with("6:46 `\\d` means nothing in double quotes"), "{found}");
    assert!(found.contains("put the text in single quotes"), "{found}");
    let found = first(
        "target: http://h\nworkflows:\n  - name: a\n    steps:\n      - name: s\n        get: /\n      \
                       check: { status: 201 }\n",
    );
    assert!(found.starts_with("7:7 `check` stands at the level of the dash"), "{found}");
    assert!(found.contains("indent it by two more blanks"), "{found}");
    let found = first(&with_steps("- name: s\n  get: /\n  headers:\n  accept: application/json"));
    assert!(found.contains("`headers` in line 8 is empty: indent `accept` below it"), "{found}");
}

#[test]
fn a_pattern_of_a_shell_is_answered_with_the_expression() {
    let found = first(&with_steps("- { get: /, check: { body: { matches: \"*.json\" } } }"));
    assert!(
        found.contains("not a regular expression") && found.contains("`'.*\\.json'`"),
        "{found}"
    );
    let found = first(&with_steps("- { get: /, check: { body: { matches: \"a(\" } } }"));
    assert!(found.contains("put a `\\` before one that is meant"), "{found}");
}

#[test]
fn a_url_whose_port_is_none_is_refused_with_its_line() {
    for (url, help) in [
        ("http://127.0.0.1:8181search?q=tea", "a `/` is missing: `:8181/search`"),
        ("http://h:99999/", "ports are from 1 to 65535"),
        ("http://h:port/", "write http://HOST:PORT/PATH"),
    ] {
        let found = first(&with_steps(&format!("- {{ get: \"{url}\" }}")));
        assert!(found.starts_with("6:14 ") && found.contains("is not a port"), "{url}: {found}");
        assert!(found.contains(help), "{url}: {found}");
    }
    for url in ["http://[::1]:80/", "http://h:${vu.id}/", "http://u:p@h/", "http://h:80?a=b:c"] {
        let step = with_steps(&format!("- {{ get: \"{url}\" }}"));
        assert!(problems(&step).is_empty(), "{url}: {:?}", problems(&step));
    }
}

#[test]
fn headers_that_are_made_from_the_body_cannot_be_given() {
    for name in ["content-length", "Transfer-Encoding"] {
        let found = first(&with_steps(&format!("- {{ post: /, headers: {{ {name}: 10 }} }}")));
        assert!(found.contains("is set by itself, from the body"), "{found}");
    }
}

#[test]
fn basic_credentials_that_are_not_encoded_are_refused() {
    let yaml = "target: http://h\nvars: { u: a, p: b }\nworkflows: [ { name: a, steps: [ { get: /, headers: { \
                Authorization: \"Basic ${u}:${p}\" } } ] } ]\n";
    let found = first(yaml);
    assert!(found.contains("what follows `Basic` is base64"), "{found}");
    assert!(found.contains("`auth: { basic: { user: NAME, password: WORD } }`"), "{found}");
    let encoded = with_steps("- { get: /, headers: { authorization: Basic YTpi } }");
    assert!(problems(&encoded).is_empty());
}

#[test]
fn a_value_of_an_iteration_is_out_of_reach_of_the_plans_teardown() {
    let yaml = "target: http://h\nteardown: [ { post: /, json: { t: \"${token}\" } } ]\nworkflows: [ { name: a, \
                steps: [ { name: login, post: /login, extract: { token: $.token } } ] } ]\n";
    let found = first(yaml);
    assert!(found.contains("the step `login` of the workflow `a` sets it"), "{found}");
    assert!(found.contains("`setup` and `teardown` do not see it"), "{found}");
}

#[test]
fn a_check_for_a_redirect_that_is_followed_is_warned_of_with_the_remedy() {
    let of = |step: &str| warnings(&with_steps(step)).join("\n");
    let found = of("- { name: old, get: /, check: { status: 302 } }");
    assert!(found.contains("`old` wants status 302, but redirects are followed"), "{found}");
    assert!(found.contains("`redirects: false` in this step"), "{found}");
    for fine in [
        "- { name: old, get: /, redirects: false, check: { status: 302 } }",
        "- { name: old, get: /, check: { status: [200, 302] } }",
        "- { name: old, get: /, check: { status: 200 } }",
    ] {
        assert!(!of(fine).contains("redirects are followed"), "{fine}: {}", of(fine));
    }
}

#[test]
fn a_step_that_was_written_as_three_is_told_which_dashes_are_too_many() {
    let found = problems(&with_steps("- name: home\n- get: /\n- check: { status: 200 }"));
    assert!(found[0].contains("if `get` below belongs to this one, take the dash"), "{found:?}");
    assert!(found[1].contains("if `check` belongs to the step above"), "{found:?}");
}

#[test]
fn a_plan_that_powershell_wrote_is_told_its_encoding() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.yaml");
    std::fs::write(&path, b"\xff\xfet\0a\0").unwrap();
    let found = plan::read_file(&path, &ReadOptions::new(&|_| None)).unwrap_err().to_string();
    assert!(found.contains("PowerShell's `>`") && found.contains("save it as UTF-8"), "{found}");
}

#[test]
fn a_file_with_another_delimiter_has_one_message_and_not_three() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("users.csv"), "name;password\nann;secret\n").unwrap();
    let yaml = "target: http://h\ndata: { users: users.csv }\nworkflows:\n- name: a\n  steps:\n  \
                - { post: /, json: { n: \"${data.users.name}\", p: \"${data.users.password}\" } }\n";
    let found = in_folder(dir.path(), yaml).unwrap_err();
    assert_eq!(found.0.len(), 1, "{found}");
    assert!(found.to_string().contains("add `delimiter: \";\"`"), "{found}");
}

#[test]
fn the_operators_of_other_languages_are_answered_with_the_right_one() {
    for wrong in ["!==", "<>"] {
        let found = first(&with_steps(&format!("- {{ get: /, when: \"${{vu.id}} {wrong} 3\" }}")));
        assert!(found.contains("unequal is `!=`"), "{found}");
    }
}

#[test]
fn json_that_is_sent_without_its_type_is_warned_of() {
    let of = |step: &str| warnings(&with_steps(step)).join("\n");
    let found = of("- { name: login, post: /, body: '{\"user\":\"ann\"}' }");
    assert!(found.contains("`login` sends JSON, and no `content-type`"), "{found}");
    for fine in [
        "- { post: /, body: '{\"a\":1}', headers: { Content-Type: application/json } }",
        "- { post: /, body: 'plain text' }",
        "- { post: /, json: { a: 1 } }",
    ] {
        assert!(!of(fine).contains("sends JSON"), "{fine}: {}", of(fine));
    }
}

#[test]
fn a_variable_of_the_shell_is_warned_of_and_a_graphql_variable_is_not() {
    let of = |step: &str| warnings(&with_steps(step)).join("\n");
    let found = of("- { get: /, headers: { Authorization: \"Bearer $TOKEN\" } }");
    assert!(found.contains("`$TOKEN` is sent as it stands"), "{found}");
    assert!(found.contains("${env.TOKEN}") && found.contains("${secret.TOKEN}"), "{found}");
    let fine = of("- { get: \"/odata?$filter=a\" }");
    assert!(!fine.contains("as it stands"), "{fine}");
}

#[test]
fn a_threshold_on_a_step_of_another_workflow_says_which_workflow_has_it() {
    let yaml = "target: http://h\nworkflows:\n- { name: browse, steps: [ { name: search, get: / } ] }\n\
                - { name: buy, steps: [ { name: home, get: / } ] }\nthresholds:\n\
                - { metric: latency, workflow: buy, step: search, hold: p(95) < 2s }\n";
    let found = first(yaml);
    assert!(found.contains("the workflow `buy` has no step `search`; `browse` has it"), "{found}");
}

#[test]
fn a_block_for_anchors_is_told_its_name() {
    let yaml = "base: &base { a: b }\ntarget: http://h\nworkflows:\n- { name: a, steps: [ { get: / } ] }\n";
    let found = first(yaml);
    assert!(found.contains("is called `x-base`"), "{found}");
}
