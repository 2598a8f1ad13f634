//! Slips that passed without a word: loads that went elsewhere, thresholds that could not fail,
//! values that were not what they looked like.

use plan::{Format, Problem, ReadOptions, read_str};

use super::{examples, problems, read, try_read, with_steps};

fn first(yaml: &str) -> String {
    problems(yaml).into_iter().next().unwrap_or_default()
}

fn warned(yaml: &str) -> String {
    let all: Vec<String> = read(yaml).warnings.iter().map(Problem::in_a_line).collect();
    all.join("\n")
}

fn with_hold(metric: &str, hold: &str) -> String {
    let step = "{ get: /, check: { status: 200 }, record: { own: 1 } }";
    format!(
        "target: http://h\nmetrics: {{ own: trend }}\nworkflows:\n- {{ name: a, steps: [ {step} ] }}\n\
         thresholds:\n- {{ metric: {metric}, hold: \"{hold}\" }}\n"
    )
}

/// What a plan says for which another target is asked for: problems, or warnings.
fn with_target(yaml: &str) -> String {
    let env = |_: &str| None;
    let options = ReadOptions { target: Some("http://staging:1"), ..ReadOptions::new(&env) };
    match read_str(yaml, Format::Yaml, &examples(), &options) {
        Ok(plan) => plan.warnings.iter().map(Problem::in_a_line).collect(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_target_that_no_url_follows_is_refused_and_one_that_some_do_not_is_pointed_at() {
    let yaml = |steps: &str| {
        format!("vars: {{ base: http://shop:2 }}\nworkflows:\n- name: a\n  steps: [ {steps} ]\n")
    };
    for own in ["{ name: home, get: http://shop:2/x }", "{ name: home, get: \"${base}/x\" }"] {
        let said = with_target(&yaml(own));
        assert!(said.contains("--target has no effect: every step"), "{said}");
        assert!(said.contains("`home` goes to http://shop:2"), "{said}");
        assert!(said.contains("plan:4:") && said.contains("1 problem"), "{said}");
        let mixed = with_target(&yaml(&format!("{{ get: / }}, {own}")));
        assert!(mixed.contains("--target has no effect on `home`"), "{mixed}");
        assert!(!mixed.contains("problem"), "{mixed}");
    }
    assert_eq!(with_target(&yaml("{ get: / }, { get: \"/${base}\" }")), "");
    // What is set while it runs may be anything.
    let set = "{ set: { base: \"${vu.id}\" } }, { get: \"${base}/x\" }";
    assert_eq!(with_target(&yaml(set)), "");
}

#[test]
fn a_quantile_is_answered_with_the_percentile() {
    for (written, meant) in [("p(0.95)", "`p(95)`"), ("p(0.999)", "`p(99.9)`"), ("p0.5", "`p(50)`")]
    {
        let found = first(&with_hold("http_req_duration", &format!("{written} < 200ms")));
        assert!(found.contains("nearly the minimum") && found.contains(meant), "{found}");
    }
    for fine in ["p(95) < 1s", "p(0) < 1s", "p(1) < 1s", "p(99.9) < 1s", "min < 1s"] {
        assert_eq!(first(&with_hold("http_req_duration", fine)), "", "{fine}");
    }
}

#[test]
fn a_threshold_that_cannot_fail_is_refused() {
    for (metric, hold, remedy) in [
        ("http_reqs", "count >= 0", "`count > 0`"),
        ("http_reqs", "rate >= 0", "`count > 0`"),
        ("http_req_failed", "rate >= 0%", "`rate < 1%`"),
        ("checks", "rate <= 100%", "`rate > 99%`"),
        ("http_req_duration", "p(95) > 0ms", "did you mean `<`?"),
        ("latency", "avg >= 0", "did you mean `<`?"),
        ("vus", "value >= 0", "`value > 0`"),
        ("dropped_iterations", "count >= 0", "`count < 1`"),
    ] {
        let found = first(&with_hold(metric, hold));
        assert!(found.starts_with("6:"), "{metric} {hold}: {found}");
        assert!(found.contains("always holds") && found.contains(remedy), "{found}");
    }
    for (metric, hold) in [
        ("http_reqs", "count > 0"),
        // However many fail, that is all right: it is meant.
        ("http_req_failed", "rate <= 100%"),
        ("checks", "rate >= 0%"),
        ("http_req_failed", "rate < 100%"),
        ("http_req_connecting", "max > 0"),
        ("own", "min >= 0"),
        ("dropped_iterations", "count <= 0"),
    ] {
        assert_eq!(first(&with_hold(metric, hold)), "", "{metric} {hold}");
    }
}

#[test]
fn a_column_whose_values_all_begin_with_a_blank_is_pointed_at() {
    let folder = tempfile::tempdir().unwrap();
    let warned = |csv: &str| -> String {
        std::fs::write(folder.path().join("users.csv"), csv).unwrap();
        let env = |_: &str| None;
        let text = with_steps("- get: /");
        let read = read_str(&text, Format::Yaml, folder.path(), &ReadOptions::new(&env));
        read.unwrap().warnings.iter().map(Problem::in_a_line).collect()
    };
    let odd = warned("name, password, region\namara, a-1, eu\nbo, b-2, us\n");
    assert!(odd.contains("plan:2:") && odd.contains("users.csv:2:"), "{odd}");
    assert!(odd.contains("`password`, `region` begins with a blank"), "{odd}");
    let odd = warned("name, word\na, \"x y\"\n");
    assert!(odd.contains("quotes behind a blank are sent"), "{odd}");
    let odd = warned("name ,word\na ,x\n");
    assert!(odd.contains("`name` ends with a blank"), "{odd}");
    // Not all of them: such a row is there on purpose.
    assert_eq!(warned("name,word\na, x\nb,y\n"), "");
    assert_eq!(warned("name,word\na,\nb,\n"), "");
}

#[test]
fn a_quote_that_is_not_closed_is_named_where_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let csv = "name,password,region\nbo,b-1,us\n\"amara,a-1,eu\n";
    std::fs::write(folder.path().join("users.csv"), csv).unwrap();
    let env = |_: &str| None;
    let text = with_steps("- get: /");
    let read = read_str(&text, Format::Yaml, folder.path(), &ReadOptions::new(&env));
    let found = read.unwrap_err().to_string();
    assert!(found.contains("users.csv:3: a quote that begins here is not closed"), "{found}");
}

#[test]
fn a_name_in_hosts_that_no_url_has_is_pointed_at() {
    let yaml = |hosts: &str, step: &str| {
        format!(
            "target: http://localhost:8080\ndefaults: {{ hosts: {{ {hosts}: \"127.0.0.1:1\" }} }}\n\
             workflows:\n- {{ name: a, steps: [ {step} ] }}\n"
        )
    };
    let odd = warned(&yaml("www.localhost", "{ get: / }"));
    assert!(odd.contains("plan:2:") && odd.contains("no URL of the plan has this name"), "{odd}");
    assert!(odd.contains("did you mean `localhost`?"), "{odd}");
    let odd = warned(&yaml("shop.example", "{ get: / }"));
    assert!(odd.contains("they go to localhost"), "{odd}");
    for fine in ["localhost", "\"localhost:8080\"", "\"*host\"", "LOCALHOST"] {
        assert_eq!(warned(&yaml(fine, "{ get: / }")), "", "{fine}");
    }
    assert_eq!(warned(&yaml("shop.example", "{ get: \"http://user@shop.example:9/\" }")), "");
    // A host that is known only when it runs may be any.
    assert_eq!(warned(&yaml("shop.example", "{ get: \"http://${vu.id}.example/\" }")), "");
}

#[test]
fn a_header_in_two_spellings_and_a_render_without_a_file_are_refused() {
    let found = first(&with_steps("- { get: /, headers: { Accept: a, accept: b } }"));
    assert!(found.contains("`accept` is given twice") && found.contains("`Accept`"), "{found}");
    // A step's own takes the place of one from `defaults`: that is what it is for.
    let both = "target: http://h\ndefaults: { headers: { Accept: a } }\nworkflows:\n\
                - { name: a, steps: [ { get: /, headers: { accept: b } } ] }\n";
    assert_eq!(first(both), "");
    let found = first(&with_steps("- { post: /, render: true, body: x }"));
    assert!(found.contains("`render` has no effect without `file`"), "{found}");
    let found = first(&with_steps("- get: /\n  headers:\n    x-a: |\n      b\n"));
    assert!(found.contains("one line") && found.contains("`|-`"), "{found}");
}

#[test]
fn a_key_that_has_another_name_at_this_place_is_answered_with_it() {
    let yaml = |key: &str| {
        format!("target: http://h\nworkflows:\n- name: a\n  {key}\n  steps: [ {{ get: / }} ]\n")
    };
    for (key, remedy) in [
        ("needs: [b]", "`depends_on: [NAME]`"),
        ("timeout: 5s", "`http: { timeout: 5s }`"),
        ("think: 1s", "`steps: [ { get: / }, { think: 1s } ]`"),
    ] {
        let found = first(&yaml(key));
        assert!(found.starts_with("4:3 unknown key") && found.contains(remedy), "{found}");
    }
    let found = first(&with_steps("- { get: /, depends_on: [a] }"));
    assert!(found.contains("`needs: [NAME]`"), "{found}");
}

#[test]
fn advice_for_toml_and_json_is_written_in_toml_and_json() {
    let said = |text: &str, format| try_read(text, format).unwrap_err().to_string();
    let below = "[defaults]\ntimeout = \"5s\"\ntarget = \"http://h\"\n[[workflows]]\nname = \"a\"\n\
                 [[workflows.steps]]\nget = \"/\"\n";
    let found = said(below, Format::Toml);
    assert!(found.contains("what follows `[defaults]`"), "{found}");
    assert!(found.contains("put it above `[defaults]`"), "{found}");
    assert!(found.contains("`target = \"http://HOST:PORT\"`"), "{found}");
    let found = said("target = \"http://h\"\n[workflows]\nname = \"a\"\n", Format::Toml);
    assert!(found.contains("two brackets: `[[workflows]]`"), "{found}");
    let found = said("target = \"http://h\"\n[workflows.shop]\nsteps = []\n", Format::Toml);
    assert!(found.contains("`[[workflows]]`, and `name = \"shop\"`"), "{found}");
    let inside = "target = \"http://h\"\n[[workflows]]\nname = \"a\"\nsteps = [ { get = \"/\" } ]\n\
                  [[workflows.thresholds]]\nmetric = \"latency\"\n";
    let found = said(inside, Format::Toml);
    assert!(found.contains("write `[[thresholds]]`"), "{found}");
    let found = said("name: a\ntarget: http://h\n", Format::Json);
    assert!(found.contains("looks like YAML: give the file the ending .yaml"), "{found}");
    let found = said("{ \"workflows\": [ { \"name\": \"a\", \"needs\": [] } ] }", Format::Json);
    assert!(found.contains("`\"depends_on\": [ \"NAME\" ]`"), "{found}");
}

#[test]
fn numbers_in_short_and_shares_as_weights_are_written_out() {
    let load = |load: &str| {
        format!(
            "target: http://h\nworkflows:\n- {{ name: a, load: {load}, steps: [ {{ get: / }} ] }}\n"
        )
    };
    for (written, remedy) in [
        ("{ vus: 10k, duration: 1s }", "`10000`"),
        ("{ vus: 2, iterations: 1e6 }", "`1000000`"),
        ("{ executor: externally-controlled, vus: 5 }", "`volley ctl scale --vus N`"),
    ] {
        let found = first(&load(written));
        assert!(found.contains(remedy), "{written}: {found}");
    }
    let choose = "- choose: [ { weight: 0.7, steps: [ { get: / } ] } ]";
    assert!(first(&with_steps(choose)).contains("7 and 3 for 0.7 and 0.3"), "{choose}");
}

#[test]
fn a_map_in_the_place_of_a_text_is_told_what_sends_maps() {
    let found = first(&with_steps("- { post: /, body: { user: amara } }"));
    assert!(found.contains("`json` or `form`"), "{found}");
    let found = first(&with_steps("- { post: /, form: { items: [1, 2] } }"));
    assert!(found.contains("sent by `json`"), "{found}");
}

#[test]
fn several_tests_in_one_check_are_given_back_as_a_list() {
    let step = "- get: /\n  check: { status: 200, body: { contains: title }, latency: < 500ms }";
    let found = first(&with_steps(step));
    assert!(found.contains("not `status`, `body` and `latency`"), "{found}");
    let list = "`check: [ { status: 200 }, { body: { contains: title } }, { latency: < 500ms } ]`";
    assert!(found.contains(list), "{found}");
}

#[test]
fn a_check_of_a_body_that_cannot_come_is_refused() {
    for check in ["{ body: { contains: a } }", "{ json: $.a, exists: true }"] {
        let found = first(&with_steps(&format!("- {{ head: /, check: {check} }}")));
        assert!(found.contains("can never hold") && found.contains("`get`"), "{found}");
    }
    let found = first(&with_steps("- { head: /, extract: { a: $.a } }"));
    assert!(found.contains("no body to extract from"), "{found}");
    let fine = "- { head: /, check: [ { status: 200 }, { body: { size: \"< 1B\" } } ] }";
    assert_eq!(first(&with_steps(fine)), "");
    assert_eq!(first(&with_steps("- { head: /, extract: { a: { header: location } } }")), "");
}

#[test]
fn every_wrong_reference_of_a_text_is_named_and_a_data_set_is_recognised() {
    let found = problems(&with_steps("- get: \"/${users.name}/${random.strin(3)}/${vu.x}\""));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("did you mean `${data.users.name}`?"), "{found:?}");
    let found = problems(&with_steps("- { post: /, json: { a: \"${vu.a} ${vu.b}\" } }"));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_path_with_a_comparison_is_told_where_the_comparison_belongs() {
    let step = "- { get: /, check: { json: \"$.lenght() > 0\", exists: true } }";
    let found = first(&with_steps(step));
    assert!(found.contains("`is: \"> 0\"`"), "{found}");
    let filter = "- { get: /, check: { json: \"$[?@.a > 0]\", exists: true } }";
    assert_eq!(first(&with_steps(filter)), "");
}

#[test]
fn metrics_under_the_names_of_others_are_answered_with_ours() {
    for (name, ours) in [
        ("response_time", "`http_req_duration`"),
        ("errorRate", "`http_req_failed`"),
        ("rps", "`http_reqs`"),
    ] {
        let found = first(&with_hold(name, "p(95) < 1s"));
        assert!(found.contains(ours), "{name}: {found}");
    }
}

#[test]
fn a_workflow_that_begins_after_the_end_of_the_test_is_pointed_at() {
    let yaml = |after: &str| {
        format!(
            "target: http://h\ntimeout: 2s\nworkflows:\n- {{ name: shop, load: {{ start_after: {after}, \
             vus: 1, iterations: 1 }}, steps: [ {{ get: / }} ] }}\n"
        )
    };
    let odd = warned(&yaml("5s"));
    assert!(odd.contains("`shop` begins after 5s: it will do nothing"), "{odd}");
    assert_eq!(warned(&yaml("1s")), "");
}
