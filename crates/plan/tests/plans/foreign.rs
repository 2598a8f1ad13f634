//! Forms and words of other tools, and texts that are nearly right: answered with the right one.

use super::{check, problems, with_steps};

/// The one problem of a plan with these steps, with its help.
#[track_caller]
fn only(yaml: &str) -> String {
    match problems(yaml).as_slice() {
        [only] => only.clone(),
        other => panic!("{yaml}\n{other:#?}"),
    }
}

#[track_caller]
fn says(yaml: &str, parts: &[&str]) {
    let found = problems(yaml).join("\n");
    for part in parts {
        assert!(found.contains(part), "{yaml}\n{found}\nlacks {part}");
    }
}

const LOGIN: &str = "- { name: login, get: /login, extract: { token: $.token } }";

fn after_login(step: &str) -> String {
    with_steps(&format!("{LOGIN}\n{step}"))
}

#[test]
fn two_braces_are_an_error_with_the_right_form_and_can_be_doubled() {
    for step in [
        "- get: '/a/{{ token }}'",
        "- { get: /a, headers: { authorization: 'Bearer {{ token }}' } }",
        "- { post: /a, json: { t: '{{ token }}' } }",
        "- { post: /a, body: 't={{ token }}' }",
        "- { get: /a, query: { t: '{{ token }}' } }",
    ] {
        says(
            &after_login(step),
            &["`{{ token }}` is not a reference", "write `${token}`", "`{{{{`"],
        );
    }
    let at = only(&after_login("- get: '/a/{{ token }}'"));
    assert!(at.starts_with("7:16 "), "{at}");
    let plan = super::read(&with_steps("- { post: /a, body: 'Dear {{{{ name }}' }"));
    let plan::Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
    let plan::Body::Raw(body) = &request.body else { panic!() };
    assert_eq!(body.as_literal(), Some("Dear {{ name }}"));
}

#[test]
fn other_forms_are_errors_only_where_something_is_called_so() {
    for step in [
        "- get: '/a/{token}'",
        "- get: '/a/$token'",
        "- { get: /a, headers: { authorization: 'Bearer {token}' } }",
        "- { get: /a, headers: { authorization: 'Bearer #{token}' } }",
        "- { post: /a, json: { t: '$token' } }",
        "- { post: /a, body: 't=#{token}' }",
        "- { get: /a, when: \"$token == 'x'\" }",
    ] {
        says(&after_login(step), &["is not a reference to `token`", "write `${token}`"]);
    }
    says(
        &with_steps("- get: '/a/{data.users.name}/{vu.id}'"),
        &["write `${data.users.name}`", "write `${vu.id}`"],
    );
    for step in [
        "- get: '/items/{id}?$filter=a&$top=1'",
        "- { post: /graphql, json: { query: 'query ($id: ID!) { item(id: $id) { id } }' } }",
        "- { post: /a, json: { price: '5$', b: '{}', c: '{token}' } }",
        "- { post: /a, body: '{\"a\":{\"b\":{}}}' }",
    ] {
        check(&after_login(step), &[]);
    }
    // GraphQL declares its own, whatever ours are called.
    let graphql = "- { post: /a, json: { query: 'query ($token: ID!) { a(t: $token) { id } }', variables: { token: '${token}' } } }";
    check(&after_login(graphql), &[]);
}

#[test]
fn a_reference_in_gatlings_form_is_not_cut_off_as_a_fragment() {
    says(
        &after_login("- get: '/a/#{tokne}/b'"),
        &["what follows `#` in a URL", "write `${tokne}`"],
    );
}

#[test]
fn a_text_that_is_json_is_answered_with_the_right_form() {
    for body in ["'{\"a\":1}'", "'[1, 2]'", "'{\"id\": ${vu.id}, \"n\": \"${uuid}\"}'"] {
        let step = format!("- {{ post: /a, json: {body} }}");
        says(&with_steps(&step), &["would be sent as a string", "`json: { a: 1 }`", "`body`"]);
    }
    for body in ["'plain'", "'{not json}'", "{ a: '{}' }"] {
        check(&with_steps(&format!("- {{ post: /a, json: {body} }}")), &[]);
    }
}

#[test]
fn a_share_of_one_without_a_unit_says_how_it_is_read() {
    let threshold = |hold: &str| {
        format!(
            "{}thresholds: [ {{ metric: http_req_failed, hold: {hold} }} ]",
            with_steps("- get: /a")
        )
    };
    says(&threshold("rate < 1"), &["`1` is read as 100%", "write `1%`"]);
    for hold in ["rate < 1%", "rate < 0.01", "rate < 100%", "rate >= 1"] {
        check(&threshold(hold), &[]);
    }
}

#[test]
fn an_unquoted_reference_in_a_flow_map_gets_a_hint_at_the_quotes() {
    let found = only(&with_steps("- post: /a\n  json: { x: ${vu.id} }"));
    assert!(found.starts_with("7:"), "{found}");
    assert!(found.contains("put quotes around") && found.contains("`\"${vu.id}\"`"), "{found}");
}

#[test]
fn a_tab_is_reported_where_it_stands() {
    check(
        "target: http://a\nworkflows:\n\t- name: a\n",
        &["3:1 a tab cannot indent a line of YAML [] / use blanks"],
    );
    check(
        "target: http://a\nworkflows:\n  - name: a\n \tsteps: [ { get: / } ]\n",
        &["4:2 a tab cannot indent a line of YAML"],
    );
}

#[test]
fn words_of_other_tools_are_answered_with_ours() {
    for (step, parts) in [
        (
            "- sleep: 1",
            ["unknown key `sleep` in step", "k6 has `sleep(1)`; here it is `think: 1s`"],
        ),
        ("- pause: 1", ["unknown key `pause` in step", "Gatling has"]),
        ("- { get: /a, capture: { json: $.t, as: t } }", ["`capture`", "`extract: { token"]),
        ("- { get: { url: /a } }", ["expected text, found a map", "here it is `- get: /cart`"]),
        ("- { get: /a, weight: 3 }", ["unknown key `weight`", "`choose: [ { weight: 3"]),
        ("- think: 1-3s", ["`1-3s` is not a time", "write `1s..3s`"]),
        ("- think: 1 - 3", ["`1 - 3` is not a time", "write `1s..3s`"]),
        ("- get: '/a/${__Random(1,5)}'", ["unknown reference", "`${random.int(1, 5)}`"]),
        ("- get: '/a/${__UUID}'", ["refers to nothing", "`${uuid}`"]),
        ("- get: '/a/${__ENV.HOST}'", ["unknown reference", "`${env.KEY}`"]),
        ("- get: '/a/{{ $randomNumber(1, 5) }}'", ["is not a reference", "`${random.int(1, 5)}`"]),
    ] {
        says(&with_steps(step), &parts);
    }
    let load = |load: &str| {
        format!("workflows: [ {{ name: a, load: {{ {load} }}, steps: [ {{ think: 1s }} ] }} ]")
    };
    for (load, parts) in [
        (
            "stages: [ { duration: 5s, target: 50 } ]".to_owned(),
            ["`duration` in stage", "`stages: [ { to: 50, over: 5s } ]`"],
        ),
        ("arrivalRate: 5, duration: 5s".to_owned(), ["`arrivalRate` in load", "Artillery has"]),
        (
            "executor: ramping-vus, startVUs: 5, stages: []".to_owned(),
            ["`startVUs`", "`start_after`"],
        ),
        ("vus: 1, spawn_rate: 5".to_owned(), ["`spawn_rate` in load", "Locust has"]),
    ]
    .map(|(text, parts)| (load(&text), parts))
    {
        says(&load, &parts);
    }
    for (key, part) in [
        ("scenarios", "k6 has"),
        ("config", "Artillery has"),
        ("phases", "Artillery has"),
        ("tasks", "Locust has"),
        ("threads", "JMeter has"),
        ("assertions", "Gatling has"),
    ] {
        says(
            &format!("{key}: {{}}\nworkflows: [ {{ name: a, steps: [ {{ think: 1s }} ] }} ]"),
            &[part],
        );
    }
}

#[test]
fn the_page_for_users_of_other_tools_is_made_of_the_table_that_answers_them() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let kept = std::fs::read_to_string(page).unwrap();
    assert!(
        kept == plan::coming_from(),
        "stale: run `volley schema --coming-from > docs/coming-from.md`"
    );
}

#[test]
fn a_threshold_may_be_written_as_the_summary_prints_it() {
    let threshold = |metric: &str| {
        format!(
            "tags: {{ team: shop }}\n{}thresholds: [ {{ metric: '{metric}', hold: p(95) < 1s }} ]",
            with_steps("- { name: login, get: /a }")
        )
    };
    let plan = super::read(&threshold("http_req_duration{step:login, workflow:main, team:shop}"));
    let threshold_read = &plan.thresholds[0];
    assert_eq!(threshold_read.metric, "http_req_duration");
    assert_eq!(threshold_read.select.step.as_deref(), Some("login"));
    assert_eq!(threshold_read.select.workflow.as_deref(), Some("main"));
    assert_eq!(threshold_read.select.tags, [("team".to_owned(), "shop".to_owned())]);
    says(&threshold("http_req_duration{step:lgoin}"), &["there is no step `lgoin`"]);
    says(&threshold("http_req_duration{login}"), &["`login` selects nothing"]);
}

#[test]
fn a_message_about_a_metric_lists_all_of_them() {
    let yaml = format!(
        "{}thresholds: [ {{ metric: nothing_like_it, hold: p(95) < 1s }} ]",
        with_steps("- get: /a")
    );
    says(&yaml, &["http_reqs", "dropped_iterations", "data_received"]);
}

#[test]
fn fields_of_csv_may_be_divided_by_another_character() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "name;age\nann;3\n").unwrap();
    std::fs::write(folder.path().join("comma.csv"), "name;age\nann;3,5\n").unwrap();
    std::fs::write(folder.path().join("t.txt"), "name\tage\nann\t3\n").unwrap();
    let read = |set: &str| {
        let yaml = format!(
            "data: {{ d: {set} }}\nworkflows: [ {{ name: a, steps: [ {{ think: 1s }} ] }} ]"
        );
        let options = plan::ReadOptions::new(&|_| None);
        plan::read_str(&yaml, plan::Format::Yaml, folder.path(), &options)
    };
    for set in ["{ file: a.csv, delimiter: ';' }", "{ file: t.txt, delimiter: tab }"] {
        let plan = read(set).unwrap();
        assert_eq!(plan.data[0].columns, ["name", "age"], "{set}");
        assert_eq!(plan::load_rows(&plan.data[0]).unwrap().len(), 1);
    }
    for (set, expect) in [
        ("a.csv", "the file has one column, called `name;age`"),
        ("comma.csv", "comma.csv:2: 2 fields, and the header has 1; is it another `delimiter`?"),
        ("{ file: a.csv, delimiter: ab }", "`ab` cannot stand between fields"),
    ] {
        let found = read(set).unwrap_err().to_string();
        assert!(found.contains(expect), "{found}");
    }
    let found = read("a.csv").unwrap_err().to_string();
    assert!(found.contains("add `delimiter: \";\"`"), "{found}");
}
