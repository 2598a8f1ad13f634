//! The second trial: what passed without a word, or with words that led astray.

use super::{examples, problems, read, with_steps};

fn first(yaml: &str) -> String {
    problems(yaml).into_iter().next().unwrap_or_default()
}

fn warnings(yaml: &str) -> Vec<String> {
    read(yaml).warnings.iter().map(plan::Problem::in_a_line).collect()
}

fn warned(yaml: &str) -> String {
    warnings(yaml).join("\n")
}

#[test]
fn a_path_as_jq_and_others_write_it_is_answered_with_one_that_is_legal() {
    for (written, meant) in [
        (".[0].id", "$[0].id"),
        ("[0].id", "$[0].id"),
        (".items[].id", "$.items[*].id"),
        (".items[]", "$.items[*]"),
        ("items.0.id", "$.items[0].id"),
        ("token", "$.token"),
        (".token", "$.token"),
        ("/items/0/id", "$.items[0].id"),
        ("$.items.0.id", "$.items[0].id"),
    ] {
        let found =
            first(&with_steps(&format!("- {{ get: /, extract: {{ id: \"{written}\" }} }}")));
        assert!(found.contains(&format!("`{meant}`")), "{written}: {found}");
        let again = with_steps(&format!("- {{ get: /, extract: {{ id: \"{meant}\" }} }}"));
        assert_eq!(first(&again), "", "{meant} must be legal itself");
    }
    for (written, word) in [
        ("$.length()", "match: count"),
        ("$.a.first()", "`$.a[0]`"),
        ("${hits}", "no reference can stand"),
    ] {
        let step = format!("- {{ get: /, check: {{ json: \"{written}\", is: \"> 0\" }} }}");
        let found = first(&with_steps(&step));
        assert!(found.contains(word), "{written}: {found}");
    }
}

#[test]
fn a_body_that_names_a_file_in_curls_way_is_refused() {
    let found = first(&with_steps("- { post: /, body: \"@users.csv\" }"));
    assert!(found.contains("sent as it is") && found.contains("`file: users.csv`"), "{found}");
    let odd = warned(&with_steps("- { post: /, body: \"@other.csv\" }"));
    assert!(odd.contains("`file: other.csv`"), "{odd}");
    assert_eq!(warned(&with_steps("- { post: /, body: \"@someone hello\" }")), "");
}

#[test]
fn a_part_that_is_the_name_of_a_file_is_pointed_at() {
    assert!(examples().join("users.csv").exists());
    let odd = warned(&with_steps("- { post: /, multipart: { note: spring, table: users.csv } }"));
    assert!(odd.contains("6:") && odd.contains("`table: { file: users.csv }`"), "{odd}");
    let meant = with_steps("- { post: /, multipart: { table: { text: users.csv } } }");
    assert_eq!(warned(&meant), "");
}

#[test]
fn a_number_that_would_lose_its_zeros_or_its_plus_is_refused() {
    for (written, sent) in [("01234", "1234"), ("0007", "7"), ("+491701234567", "491701234567")] {
        let found = first(&with_steps(&format!("- {{ post: /, json: {{ a: {written} }} }}")));
        assert!(found.contains(&format!("sent as {sent}")), "{written}: {found}");
        assert!(found.contains(&format!("`\"{written}\"`")), "{written}: {found}");
    }
    for fine in ["0", "0.5", "10", "-1", "1.10", "1e3", "\"0123\"", "0x1F"] {
        assert_eq!(first(&with_steps(&format!("- {{ post: /, json: {{ a: {fine} }} }}"))), "");
    }
}

#[test]
fn fewer_iterations_than_users_are_pointed_at() {
    let yaml = |load: &str| {
        format!(
            "target: http://h\nworkflows:\n- {{ name: a, load: {load}, steps: [ {{ get: / }} ] }}\n"
        )
    };
    let odd = warned(&yaml("{ vus: 10, iterations: 5 }"));
    assert!(odd.contains("3:") && odd.contains("`executor: per-vu-iterations`"), "{odd}");
    assert_eq!(warned(&yaml("{ vus: 5, iterations: 5 }")), "");
    assert_eq!(warned(&yaml("{ executor: per-vu-iterations, vus: 10, iterations: 5 }")), "");
}

#[test]
fn a_time_limit_that_cuts_the_load_off_is_pointed_at() {
    let yaml = |timeout: &str| {
        format!(
            "target: http://h\ntimeout: {timeout}\nworkflows:\n- {{ name: a, load: {{ vus: 1, duration: 3s }}, \
             steps: [ {{ get: / }} ] }}\n"
        )
    };
    let odd = warned(&yaml("1s"));
    assert!(odd.contains("plan:2:10") && odd.contains("`a` alone takes 3s"), "{odd}");
    assert_eq!(warned(&yaml("1m")), "");
}

#[test]
fn a_default_for_a_name_that_nothing_sets_is_pointed_at() {
    let yaml = |reference: &str| {
        format!(
            "target: http://h\nvars: {{ region: us }}\nworkflows:\n- {{ name: a, \
             steps: [ {{ get: \"/?q={reference}\" }} ] }}\n"
        )
    };
    let odd = warned(&yaml("${regoin:-eu}"));
    assert!(odd.contains("is set nowhere") && odd.contains("did you mean `region`?"), "{odd}");
    let odd = warned(&yaml("${BASE_URL:-eu}"));
    assert!(odd.contains("`${env.BASE_URL:-...}`"), "{odd}");
    assert_eq!(warned(&yaml("${region:-eu}")), "");
    assert_eq!(warned(&yaml("${env.REGION:-eu}")), "");
}

#[test]
fn arithmetic_in_a_text_is_pointed_at() {
    let step =
        |value: &str| with_steps(&format!("- {{ set: {{ page: \"{value}\" }} }}\n- {{ get: / }}"));
    for value in ["${vu.id} + 1", "${vu.id}+1", "${vu.id} * 2"] {
        let odd = warned(&step(value));
        assert!(odd.contains("nothing is calculated"), "{value}: {odd}");
    }
    for value in ["${vu.id}-1", "${vu.id}/2", "a ${vu.id} + b", "${vu.id} and 1"] {
        assert_eq!(warned(&step(value)), "", "{value}");
    }
}

#[test]
fn a_threshold_on_a_tag_that_no_step_has_is_pointed_at() {
    let yaml = |wanted: &str| {
        format!(
            "target: http://h\nworkflows:\n- {{ name: a, steps: [ {{ get: /, tags: {{ word: tea }} }} ] }}\n\
             thresholds:\n- {{ metric: http_req_duration, tags: {{ word: {wanted} }}, hold: p(95) < 1s }}\n"
        )
    };
    let odd = warned(&yaml("coffee"));
    assert!(odd.contains("5:") && odd.contains("there is tea"), "{odd}");
    assert_eq!(warned(&yaml("tea")), "");
}

#[test]
fn two_conditions_in_one_hold_become_two_thresholds() {
    let yaml = "target: http://h\nworkflows:\n- { name: a, steps: [ { get: / } ] }\nthresholds:\n\
                - { metric: latency, hold: \"p(95) < 200ms && p(99) < 500ms\" }\n";
    let found = first(yaml);
    assert!(found.contains("takes one condition") && found.contains("two thresholds"), "{found}");
}

#[test]
fn signs_and_paths_that_yaml_takes_for_its_own_are_to_be_quoted() {
    let found = first(
        "target: http://h\nworkflows:\n- name: a\n  steps:\n  - get: /\n    check:\n    - json: $.id\n      is: >= 1\n",
    );
    assert!(found.contains("`\">= 1\"`"), "{found}");
    let found = first(&with_steps("- { get: /, extract: { id: $[0].id } }"));
    assert!(found.contains("`\"$[0].id\"`"), "{found}");
}

#[test]
fn a_variable_where_a_number_belongs_is_told_what_can_stand_there() {
    let found = first(&with_steps("- { repeat: \"${count}\", steps: [ { get: / } ] }"));
    assert!(found.contains("`${env.NAME}`"), "{found}");
    let found = first(
        "target: http://h\noutput: { json: a.json }\nworkflows:\n- { name: a, steps: [ { get: / } ] }\n",
    );
    assert!(found.contains("`--output json=f`"), "{found}");
}

#[test]
fn no_example_and_no_starter_is_warned_about() {
    let env = |_: &str| None;
    for name in ["checkout.yaml", "quickstart.yaml", "quickstart.toml", "api.json"] {
        let path = examples().join(name);
        let read = plan::read_file(&path, &plan::ReadOptions::new(&env));
        let plan = read.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert!(plan.warnings.is_empty(), "{name}: {:?}", plan.warnings);
    }
}
