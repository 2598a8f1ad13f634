//! What the short forms mean.

use std::time::Duration;

use plan::{Action, CheckKind, Executor, Extractor, HttpVersion, OnFailure, Priority};

use super::{read, with_steps};

fn load(load: &str) -> plan::Load {
    let yaml = format!("workflows:\n- name: a\n  load: {load}\n  steps: [ {{ think: 1s }} ]");
    read(&yaml).workflows[0].load.clone()
}

#[test]
fn the_executor_is_told_by_the_keys() {
    for (text, expect) in [
        ("{ vus: 5, duration: 10s }", "constant-vus"),
        ("{ duration: 10s }", "constant-vus"),
        ("{ stages: [ { to: 5, over: 1s } ] }", "ramping-vus"),
        ("{ stages: [ { to: 5/s, over: 1s } ] }", "ramping-arrival-rate"),
        ("{ iterations: 10 }", "shared-iterations"),
        ("{ vus: 2, iterations: 10 }", "shared-iterations"),
        ("{ rate: 10/s, duration: 1s }", "constant-arrival-rate"),
        ("{ start_after: 5s }", "shared-iterations"),
        ("{ executor: per-vu-iterations, vus: 2 }", "per-vu-iterations"),
        ("{ executor: CONSTANT-VUS, duration: 1s }", "constant-vus"),
    ] {
        assert_eq!(load(text).executor.name(), expect, "{text}");
    }
}

#[test]
fn defaults_of_executors_are_k6s() {
    let plan = read("workflows: [ { name: a, steps: [ { think: 1s } ] } ]");
    let once = &plan.workflows[0].load;
    let ten_minutes = Duration::from_secs(600);
    let expect = Executor::SharedIterations { vus: 1, iterations: 1, max_duration: ten_minutes };
    assert_eq!(once.executor, expect);
    assert_eq!(once.graceful_stop, Duration::from_secs(30));
    let Executor::RampingVus { start, graceful_ramp_down, .. } =
        load("{ stages: [ { to: 5, over: 1s } ] }").executor
    else {
        panic!()
    };
    assert_eq!((start, graceful_ramp_down), (0, Duration::from_secs(30)));
}

#[test]
fn stages_have_labels() {
    let load =
        load("{ warmup: 1s, stages: [ { to: 5, over: 3s }, { to: 5, over: 1s, name: peak } ] }");
    assert_eq!(load.stage_labels(), ["warmup", "stage-1", "peak"]);
    assert_eq!(load.executor.scheduled(), Some(Duration::from_secs(4)));
}

#[test]
fn workflows_have_priorities_in_any_case_and_auto_by_default() {
    let priority = |text: &str| {
        read(&format!("workflows: [ {{ name: a, {text} steps: [ {{ think: 1s }} ] }} ]")).workflows
            [0]
        .priority
    };
    for (text, expect) in [
        ("", Priority::Auto),
        ("priority: high,", Priority::High),
        ("priority: HIGH,", Priority::High),
        ("priority: Exclusive,", Priority::Exclusive),
        ("priority: low,", Priority::Low),
        ("priority: NORMAL,", Priority::Normal),
    ] {
        assert_eq!(priority(text), expect, "{text}");
    }
}

#[test]
fn steps_are_named_after_what_they_do() {
    let steps = "- get: /a?x=${env.R:-eu}\n- get: /a?x=${env.R:-eu}\n- think: 1s\n- think: 2s\n\
                 - request: { method: PURGE, url: /c }\n- { group: g, steps: [ { get: /d } ] }";
    let plan = read(&with_steps(steps));
    let names: Vec<&str> = plan.workflows[0].steps.iter().map(|step| &*step.name).collect();
    assert_eq!(
        names,
        ["GET /a?x=${env.R:-eu}", "GET /a?x=${env.R:-eu} #2", "think", "think #2", "PURGE /c", "g",]
    );
}

#[test]
fn extractors_have_short_and_long_forms() {
    let steps = "- get: /\n  extract: { a: $.a, b: { json: $.b }, c: { regex: 'x(.)' }, \
                 d: { regex: x }, e: { header: location }, f: { cookie: sid } }";
    let plan = read(&with_steps(steps));
    let Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
    let shown: Vec<String> = request.extract.iter().map(|one| format!("{:?}", one.from)).collect();
    assert_eq!(
        shown,
        [
            "Json(\"$.a\")",
            "Json(\"$.b\")",
            "Regex { pattern: \"x(.)\", group: 1 }",
            "Regex { pattern: \"x\", group: 0 }",
            "Header(\"location\")",
            "Cookie(\"sid\")",
        ]
    );
    assert!(matches!(request.extract[0].from, Extractor::Json(_)));
}

#[test]
fn checks_are_named_after_what_they_test() {
    let check = |text: &str| {
        let plan = read(&with_steps(&format!("- get: /\n  check: {text}")));
        let Action::Request(request) = &plan.workflows[0].steps[0].action else { panic!() };
        let check = request.checks[0].clone();
        match check.kind {
            CheckKind::Latency { .. } | CheckKind::BodySize { .. } => {
                format!("{} = {:?}", check.name, check.kind)
            }
            _ => check.name,
        }
    };
    for (text, expect) in [
        ("{ status: 200 }", "status is 200"),
        ("{ status: [200, 2xx, 301..302] }", "status is 200 or 2xx or 301..302"),
        ("{ status: 200, name: good }", "good"),
        ("{ json: $.a, exists: true }", "$.a exists"),
        ("{ json: $.a, exists: false }", "$.a does not exist"),
        ("{ json: $.a, equals: 5 }", "$.a equals 5"),
        ("{ json: $.a, is: \"> 3\" }", "$.a > 3"),
        ("{ body: { contains: items } }", "body contains items"),
        ("{ body: { matches: '^x' } }", "body matches ^x"),
        ("{ body: { size: < 10KB } }", "body size < 10KB = BodySize { op: Less, bytes: 10000 }"),
        ("{ header: { name: etag, exists: true } }", "header etag exists"),
        ("{ latency: <250ms }", "latency < 250ms = Latency { op: Less, limit: 250ms }"),
    ] {
        assert_eq!(check(text), expect, "{text}");
    }
}

#[test]
fn settings_of_a_workflow_refine_the_defaults() {
    let yaml = "defaults: { timeout: 5s, version: 1.1, cookies: keep, redirects: 3, \
                headers: { a: b } }\nworkflows:\n- name: a\n  \
                http: { version: 2, redirects: false }\n  \
                on_failure: end-iteration\n  steps: [ { think: 1s } ]";
    let plan = read(yaml);
    let http = &plan.workflows[0].http;
    assert_eq!((http.version, http.redirects, http.keep_cookies), (HttpVersion::Http2, 0, true));
    assert_eq!(http.timeout, Duration::from_secs(5));
    assert_eq!((plan.http.version, plan.http.redirects), (HttpVersion::Http1, 3));
    assert_eq!(plan.headers.len(), 1);
    assert_eq!(plan.workflows[0].on_failure, OnFailure::EndIteration);
}

#[test]
fn conditions_and_loops_are_read() {
    let steps = "- set: { n: 1 }\n- repeat: 5\n  until: ${n} > 3\n  \
                 when: ${n} and not ${n} == 2\n  \
                 steps: [ { get: / } ]\n\
                 - choose: [ { weight: 3, steps: [ { get: /a } ] }, { steps: [ { get: /b } ] } ]";
    let plan = read(&with_steps(steps));
    let Action::Repeat { times: 5, until: Some(_), .. } = plan.workflows[0].steps[1].action else {
        panic!()
    };
    assert!(plan.workflows[0].steps[1].when.is_some());
    let Action::Choose(branches) = &plan.workflows[0].steps[2].action else { panic!() };
    assert_eq!(branches.iter().map(|branch| branch.weight).collect::<Vec<_>>(), [3, 1]);
}
