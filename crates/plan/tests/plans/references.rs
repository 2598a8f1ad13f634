//! Templates refer to something that is set before.

use super::{check, read, with_steps};

#[test]
fn a_variable_is_set_before_it_is_used() {
    check(
        &with_steps("- get: /a/${id}"),
        &["6:15 `${id}` refers to nothing [workflows[0].steps[0].get] / set it with `vars`, `set`"],
    );
    check(&with_steps("- get: /a/${id:-1}"), &[]);
    check(&with_steps("- set: { id: 1 }\n- get: /a/${id}"), &[]);
    check(
        &with_steps("- get: /a/${id}\n- { name: late, get: /b, extract: { id: $.id } }"),
        &["6:15 `${id}` refers to nothing [workflows[0].steps[0].get] / \
             the step `late` sets it, and"],
    );
    check(&with_steps("- { get: \"/a/${id}\", extract: { id: $.id } }"), &["6:18 `${id}` refers"]);
    check(
        &with_steps(
            "- { get: /a, extract: { id: $.id }, check: { body: { contains: \"${id}\" } } }",
        ),
        &[],
    );
    check(
        &with_steps("- set: { name: ann }\n- get: /a/${nmae}"),
        &["7:15 `${nmae}` refers to nothing [workflows[0].steps[1].get] / did you mean `name`?"],
    );
}

#[test]
fn a_step_sees_only_what_it_waits_for() {
    let steps = "- { name: a, get: /a, extract: { x: $.x } }\n\
                 - { name: b, needs: [], get: \"/b/${x}\" }";
    check(&with_steps(steps), &["7:38 `${x}` refers to nothing"]);
    let group = "- group: g\n  concurrent: true\n  steps:\n  \
                 - { name: a, get: /a, extract: { x: $.x } }\n  \
                 - { name: b, get: \"/b/${x}\" }\n- get: /c/${x}";
    check(&with_steps(group), &["10:29 `${x}` refers to nothing"]);
}

#[test]
fn loops_ask_their_condition_after_the_body() {
    let steps = "- repeat: 3\n  until: ${done} == 'yes'\n  steps:\n  \
                 - { get: /a, extract: { done: $.done } }\n- get: /b/${done}";
    check(&with_steps(steps), &[]);
}

#[test]
fn setup_is_seen_by_what_comes_after_it() {
    let yaml = "target: http://a\nvars: { region: eu }\n\
                setup: [ { get: \"/s/${region}\", extract: { one: $.x } } ]\nworkflows:\n\
                - name: a\n  \
                vars: { mine: \"${one}\" }\n  \
                setup: [ { get: \"/${one}\", extract: { two: $.x } } ]\n  \
                vu_setup: [ { get: \"/${two}\", extract: { three: $.x } } ]\n  \
                steps: [ { get: \"/${three}/${mine}\", extract: { four: $.x } } ]\n  \
                vu_teardown: [ { get: \"/${three}\" } ]\n  teardown: [ { get: \"/${two}\" } ]\n\
                teardown: [ { get: \"/${one}\" } ]";
    check(yaml, &[]);
    let leak =
        yaml.replace("teardown: [ { get: \"/${two}\" } ]", "teardown: [ { get: \"/${four}\" } ]");
    check(&leak, &["11:24 `${four}` refers to nothing"]);
}

#[test]
fn data_steps_and_hand_overs_must_exist() {
    check(
        &with_steps("- get: /${data.users.nmae}"),
        &["6:13 the data set `users` has no column `nmae` [workflows[0].steps[0].get] / \
         did you mean `name`?"],
    );
    check(&with_steps("- get: /${data.usres.name}"), &["6:13 there is no data set `usres`"]);
    check(&with_steps("- get: /${use.token}"), &["6:13 `${use.token}` is not taken from any"]);
    check(
        &with_steps("- { name: a, get: /a }\n- get: /${steps.b.status}"),
        &["7:13 there is no step `b`"],
    );
    check(
        &with_steps("- get: /${steps.a.status}\n- { name: a, get: /a }"),
        &["6:13 the step `a` does not run before this"],
    );
    check(
        &with_steps("- { name: a, get: /a }\n- { when: \"${steps.a.status} == 200\", get: /b }"),
        &[],
    );
}

#[test]
fn values_of_other_workflows_come_by_hand_over() {
    let yaml = "target: http://a\nworkflows:\n\
                - { name: a, steps: [ { get: /a, extract: { token: $.t } } ] }\n\
                - { name: b, depends_on: a, steps: [ { get: \"/b?${token}\" } ] }";
    check(yaml, &["4:49 `${token}` refers to nothing [workflows[1].steps[0].get] / `a` sets it"]);
}

#[test]
fn the_environment_is_filled_in_when_the_plan_is_read() {
    check(
        &with_steps("- { name: cart, get: \"/${env.NOPE}\" }"),
        &["6:28 the environment variable `NOPE` is not set (step `cart`)"],
    );
    check(
        &with_steps("- { name: cart, get: \"/${env.EMPTY}\" }"),
        &["6:28 the environment variable"],
    );
    let plan = read(&with_steps("- { get: /a, json: { q: \"<${env.QUOTE}>\" } }"));
    let plan::Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
    let plan::Body::Json(body) = &request.body else { panic!() };
    assert_eq!(body.as_literal(), Some(r#"{"q":"<a \"b\">"}"#));
    let yaml = "workflows: [ { name: a, load: { vus: \"${env.VUS}\", duration: \"${env.D:-5s}\" }, \
                steps: [ { think: 1s } ] } ]";
    let plan::Executor::ConstantVus { vus, duration } = read(yaml).workflows[0].load.executor
    else {
        panic!()
    };
    assert_eq!((vus, duration.as_secs()), (7, 5));
    let unset = yaml.replace("VUS", "NONE");
    check(&unset, &["1:38 the environment variable `NONE` is not set"]);
}

#[test]
fn headers_may_use_what_any_step_sets() {
    let yaml = "target: http://a\ndefaults: { headers: { a: \"${token}\" } }\nworkflows:\n\
                - { name: a, headers: { b: \"${token}\", c: \"${tokn}\" }, \
                steps: [ { get: /a, extract: { token: $.t } } ] }";
    check(yaml, &["4:44 `${tokn}` refers to nothing [workflows[0].headers.c] / did you mean"]);
}
