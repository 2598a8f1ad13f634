//! Dependencies of workflows and steps, and values handed over between workflows.

use plan::{WorkflowClass, classify, layers};

use super::{check, read, with_steps};

/// Workflows as `name(dependencies)`; nothing but their graph matters.
fn plan_of(graph: &str) -> String {
    let workflow = |text: &str| {
        let (name, needs) = text.trim_end_matches(')').split_once('(').unwrap();
        format!("- {{ name: {name}, depends_on: [{needs}], steps: [ {{ think: 1s }} ] }}\n")
    };
    let list: String = graph.split("; ").map(workflow).collect();
    format!("workflows:\n{list}")
}

#[test]
fn layers_follow_the_longest_path() {
    let plan =
        read(&plan_of("Setup(); LoadTest(); Validate(LoadTest); Report(Validate, LoadTest)"));
    assert_eq!(layers(&plan), [vec![0, 1], vec![2], vec![3]]);
    let later_first = read(&plan_of("c(b); b(a); a()"));
    assert_eq!(layers(&later_first), [[2], [1], [0]]);
}

#[test]
fn graphs_that_cannot_run_are_refused() {
    check(
        &plan_of("a(b); b(a)"),
        &["2:26 these workflows wait for each other: a -> b -> a [workflows[0].depends_on]"],
    );
    check(&plan_of("a(a)"), &["2:27 the workflow `a` depends on itself"]);
    check(
        &plan_of("shop(); search(shpo)"),
        &["3:32 there is no workflow `shpo` [workflows[1].depends_on[0]] / did you mean `shop`?"],
    );
    check(
        &plan_of("a(b); b(c); c(a); d(e); e(d)"),
        &[
            "2:26 these workflows wait for each other: a -> b -> c -> a",
            "5:26 these workflows wait for each other: d -> e -> d",
        ],
    );
}

#[test]
fn steps_need_steps_of_their_own_list() {
    check(
        &with_steps("- { name: a, needs: [b], get: /a }\n- { name: b, get: /b }"),
        &["6:25 these steps wait for each other: a -> b -> a [workflows[0].steps[0].needs]"],
    );
    check(&with_steps("- { name: a, needs: [a], get: /a }"), &["6:26 the step `a` needs itself"]);
    check(
        &with_steps("- { name: one, get: /a }\n- { needs: [oen], get: /b }"),
        &["7:17 there is no step `oen` [workflows[0].steps[1].needs[0]] / did you mean `one`?"],
    );
    check(
        &with_steps("- { group: g, steps: [ { name: in, get: /a } ] }\n- { needs: in, get: /b }"),
        &["7:16 the step `in` is in another list of steps"],
    );
    let islands = "target: http://a\nworkflows:\n- { name: a, steps: [ { name: x, get: /x } ] }\n\
                   - { name: b, steps: [ { needs: [x], get: /y } ] }";
    check(
        islands,
        &["4:33 the step `x` is in the workflow `a` [workflows[1].steps[0].needs[0]] / \
                      workflows are islands"],
    );
}

#[test]
fn a_diamond_of_steps_is_fine() {
    let steps = "- { name: authenticate, get: /a, extract: { t: $.t } }\n\
                 - { name: users, needs: authenticate, get: \"/u?${t}\", extract: { u: $.u } }\n\
                 - { name: config, needs: [authenticate], get: /c, extract: { c: $.c } }\n\
                 - { name: process, needs: [users, config], get: \"/p?${u}&${c}&${t}\" }";
    check(&with_steps(steps), &[]);
}

#[test]
fn a_workflow_with_a_request_at_any_depth_is_a_test() {
    let class = |steps: &str| classify(&read(&with_steps(steps)).workflows[0]);
    assert_eq!(class("- get: /a"), WorkflowClass::Test);
    assert_eq!(class("- think: 1s\n- set: { a: 1 }"), WorkflowClass::NonTest);
    assert_eq!(class("- set: { a: 1 }\n- get: /a"), WorkflowClass::Test);
    let nested = "- group: g\n  steps:\n  - repeat: 2\n    steps:\n    - choose:\n      \
                  - { steps: [ { think: 1s } ] }\n      - { steps: [ { get: /a } ] }";
    assert_eq!(class(nested), WorkflowClass::Test);
    let setup = "target: http://a\nworkflows: [ { name: a, setup: [ { get: /a } ], \
                 steps: [ { set: { a: 1 } } ] } ]";
    assert_eq!(classify(&read(setup).workflows[0]), WorkflowClass::NonTest);
}

/// Two workflows; the first may provide, the second may use.
fn pair(provide: &str, depends: &str, uses: &str) -> String {
    format!(
        "target: http://a\nworkflows:\n- name: auth\n  provide: {provide}\n  \
         steps: [ {{ name: login, get: /a, extract: {{ token: $.t }} }} ]\n- name: shop\n  \
         depends_on: {depends}\n  use: {uses}\n  steps: [ {{ get: /b }} ]"
    )
}

#[test]
fn a_value_is_handed_over_if_both_sides_say_so() {
    check(&pair("{ token: [shop] }", "[auth]", "{ token: [auth] }"), &[]);
    let long = "{ key: { from: token, to: [shop], collect: true } }";
    let plan = read(&pair(long, "[auth]", "{ key: { from: auth, default: none } }"));
    let provide = &plan.workflows[0].provide[0];
    assert_eq!(
        (provide.key.as_str(), provide.from.as_str(), provide.collect),
        ("key", "token", true)
    );
    assert_eq!(plan.workflows[1].uses[0].default.as_deref(), Some("none"));
}

#[test]
fn a_one_sided_or_impossible_hand_over_is_refused() {
    check(
        &pair("{ token: [shop] }", "[auth]", "{}"),
        &["4:22 `shop` does not use `token` from `auth` [workflows[0].provide.token[0]] / \
         add to `shop`: `use: { token: [auth] }`"],
    );
    check(
        &pair("{}", "[auth]", "{ token: [auth] }"),
        &["8:18 `auth` does not provide `token` to `shop`"],
    );
    check(
        &pair("{ token: [shop] }", "[]", "{ token: [auth] }"),
        &[
            "4:22 `shop` does not run after `auth`",
            "8:18 `auth` does not run before `shop` [workflows[1].use.token[0]] / add `depends_on",
        ],
    );
    check(
        &pair("{ token: [shpo] }", "[auth]", "{}"),
        &["4:22 there is no workflow `shpo` [workflows[0].provide.token[0]] / \
             did you mean `shop`?"],
    );
    check(&pair("{ token: [] }", "[auth]", "{}"), &["4:14 `token` names no workflow"]);
    check(
        &pair("{ tokne: [shop] }", "[auth]", "{ tokne: [auth] }"),
        &["4:14 the workflow `auth` never sets the variable `tokne` \
             [workflows[0].provide.tokne] / \
         did you mean `token`?"],
    );
}
