//! Workflows among each other: order, handed-over values, setup and teardown, failure of one and
//! the fate of the others (EXEC-50 to EXEC-56, R5).

use std::time::Duration;

use crate::common::recording::{Recording, Seen, ok};
use crate::common::{Run, Runner, target, url};
use stats::{ErrorKind, Outcome, StopReason, VerdictState, WorkflowStatus};

fn failed(run: &Run, workflow: &str) -> String {
    match run.status(workflow) {
        WorkflowStatus::Failed { error } => error.clone(),
        other => panic!("{workflow} is {other:?}; {:?}", run.0.timeline),
    }
}

#[test]
fn a_workflow_starts_when_all_that_it_depends_on_have_ended() {
    let server = Recording::start(|request: &Seen| {
        std::thread::sleep(Duration::from_millis(if request.path == "/a" { 150 } else { 20 }));
        ok("")
    });
    let plan = "target: TARGET
workflows:
  - { name: last, depends_on: [a, b], steps: [ { get: /last } ] }
  - { name: a, steps: [ { get: /a } ] }
  - { name: b, steps: [ { get: /b } ] }
";
    let run = Runner::to(server.url()).cores(2).run(plan);
    run.assert_clean();
    assert_eq!(run.0.outcome, Outcome::Completed);
    assert_eq!(server.paths().last().unwrap(), "/last");
    let seen = server.seen();
    let at = |path: &str| seen.iter().find(|one| one.path == path).unwrap().at;
    assert!(at("/b") < at("/a") + Duration::from_millis(140), "a and b run side by side");
    assert!(at("/last") >= at("/a") + Duration::from_millis(150));
}

#[test]
fn a_token_is_handed_from_one_workflow_to_the_next() {
    // The first workflow logs in, the second one uses its token.
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/login" => ok("{\"token\":\"golden\"}"),
        _ => ok("{}"),
    });
    let plan = "target: TARGET
workflows:
  - name: AuthWorkflow
    load: { executor: per-vu-iterations, vus: 4, iterations: 3 }
    steps: [ { post: /login, json: { user: ann }, extract: { auth_token: $.token } } ]
    provide: { auth_token: [DataWorkflow] }
  - name: DataWorkflow
    depends_on: [AuthWorkflow]
    use: { auth_token: [AuthWorkflow] }
    load: { executor: per-vu-iterations, vus: 4, iterations: 3 }
    steps: [ { get: /data, auth: { bearer: '${use.auth_token}' } } ]
";
    for cores in [1, 3] {
        let before = server.seen().len();
        Runner::to(server.url()).cores(cores).run(plan).assert_clean();
        let seen = server.seen().split_off(before);
        let data: Vec<_> = seen.iter().filter(|one| one.path == "/data").collect();
        assert_eq!(data.len(), 12);
        for one in data {
            assert_eq!(one.header("authorization"), Some("Bearer golden"));
        }
    }
}

const SIDES: &str = "target: TARGET
workflows:
  - name: auth
    steps: [ { get: /login, extract: { token: $.token } } ]
    provide: { key: { from: token, to: [friend, later] } }
  - { name: idle, steps: [ { when: 'false', get: /never, extract: { nothing: $.x } } ], provide: { nothing: [later] } }
  - name: friend
    depends_on: [auth]
    use: { key: [auth] }
    steps: [ { get: '/friend/${use.key}' } ]
  - name: later
    depends_on: [friend, idle]
    use: { key: [auth], nothing: { from: [idle], default: fallback } }
    steps: [ { get: '/later/${use.key}/${use.nothing}' } ]
";

#[test]
fn a_value_reaches_every_workflow_that_is_named_and_a_missing_one_has_its_default() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/login" => ok("{\"token\":\"secret\"}"),
        _ => ok("{}"),
    });
    Runner::to(server.url()).cores(2).run(SIDES).assert_clean();
    assert_eq!(server.paths(), ["/login", "/friend/secret", "/later/secret/fallback"]);
}

#[test]
fn a_value_that_was_not_meant_for_a_workflow_is_refused_before_the_run() {
    let text = SIDES
        .replace("TARGET", "http://127.0.0.1:9")
        .replace("to: [friend, later]", "to: [friend]");
    let options = plan::ReadOptions::new(&|_| None);
    let folder = std::path::Path::new(".");
    let read = plan::read_str(&text, plan::Format::Yaml, folder, &options);
    let problems = read.expect_err("`later` is not named by the provider").to_string();
    assert!(problems.contains("later"), "{problems}");
}

#[test]
fn all_shards_values_can_be_collected() {
    let server = Recording::start(|_| ok("{}"));
    let plan = "target: TARGET
workflows:
  - name: make
    load: { executor: per-vu-iterations, vus: 3, iterations: 2 }
    steps: [ { set: { mine: 'vu${vu.id}' } }, { get: /make } ]
    provide: { first: { from: mine, to: [take] }, all: { from: mine, to: [take], collect: true } }
  - name: take
    depends_on: [make]
    use: { first: [make], all: [make] }
    steps: [ { post: /take, body: '${use.first} ${use.all}' } ]
";
    Runner::to(server.url()).cores(3).run(plan).assert_clean();
    let seen = server.seen();
    assert_eq!(seen.last().unwrap().text(), "vu1 [\"vu1\",\"vu2\",\"vu3\"]");
}

#[test]
fn what_setup_extracts_everyone_sees() {
    let server =
        Recording::start(|request: &Seen| ok(&format!("{{\"v\":\"{}\"}}", &request.path[1..])));
    let plan = "target: TARGET
setup: [ { get: /plan, extract: { p: $.v } } ]
teardown: [ { get: '/end/${p}' } ]
workflows:
  - name: w
    load: { executor: per-vu-iterations, vus: 2, iterations: 2 }
    setup: [ { get: '/workflow', extract: { w: $.v } } ]
    vu_setup: [ { get: '/user${vu.id}', extract: { u: $.v } } ]
    steps: [ { get: '/step/${p}/${w}/${u}' } ]
    vu_teardown: [ { get: '/bye/${u}' } ]
    teardown: [ { get: '/after/${w}' } ]
";
    Runner::to(server.url()).cores(2).run(plan).assert_clean();
    let paths = server.paths();
    let count = |path: &str| paths.iter().filter(|one| *one == path).count();
    for user in ["user1", "user2"] {
        assert_eq!(count(&format!("/step/plan/workflow/{user}")), 2, "{paths:?}");
        assert_eq!(count(&format!("/bye/{user}")), 1, "{paths:?}");
    }
    assert_eq!((paths[0].as_str(), paths[1].as_str()), ("/plan", "/workflow"));
    let end = paths.len();
    assert_eq!(
        (paths[end - 2].as_str(), paths[end - 1].as_str()),
        ("/after/workflow", "/end/plan")
    );
}

#[test]
fn a_failed_setup_fails_its_workflow_skips_its_dependents_and_nothing_else() {
    let target = target();
    let plan = "target: TARGET
workflows:
  - { name: broken, setup: [ { name: prepare, get: /status/500 } ], steps: [ { get: /bytes/1 } ] }
  - { name: child, depends_on: [broken], steps: [ { get: /bytes/2 } ] }
  - { name: grandchild, depends_on: [child], steps: [ { get: /bytes/3 } ] }
  - { name: independent, load: { iterations: 7 }, steps: [ { get: / } ] }
";
    let run = Runner::to(url(&target)).cores(2).run(plan);
    assert!(failed(&run, "broken").contains("prepare"), "{}", failed(&run, "broken"));
    for name in ["child", "grandchild"] {
        let WorkflowStatus::Skipped { because_of } = run.status(name) else {
            panic!("{:?}", run.status(name));
        };
        assert!(["broken", "child"].contains(&because_of.as_str()), "{because_of}");
    }
    assert_eq!(run.status("independent"), &WorkflowStatus::Completed);
    assert_eq!(run.0.outcome, Outcome::Partial);
    assert_eq!((target.counts().of("/bytes/N"), target.counts().of("/")), (0, 7));
    run.assert_seen_by(&target);
}

#[test]
fn a_failed_setup_of_the_plan_runs_nothing_but_its_teardown() {
    let target = target();
    let plan = "target: TARGET
setup: [ { get: /status/503 } ]
teardown: [ { get: /bytes/1 } ]
workflows: [ { name: w, steps: [ { get: / } ] } ]
";
    let run = Runner::to(url(&target)).run(plan);
    assert_eq!(run.0.outcome, Outcome::Failed);
    assert_eq!((target.counts().of("/"), target.counts().of("/bytes/N")), (0, 1));
    assert!(run.0.notes.iter().any(|note| note.contains("setup failed")), "{:?}", run.0.notes);
}

#[test]
fn no_user_through_its_setup_means_the_workflow_has_failed() {
    let target = target();
    let plan = "target: TARGET
workflows:
  - name: w
    load: { vus: 2, duration: 300ms }
    vu_setup: [ { get: /status/500 } ]
    steps: [ { get: / } ]
";
    let run = Runner::to(url(&target)).run(plan);
    assert!(failed(&run, "w").contains("vu_setup"));
    assert_eq!(run.0.outcome, Outcome::Failed);
    assert_eq!(target.counts().of("/"), 0);
    // A place stays empty for a second, so that a target that refuses is not hammered.
    assert_eq!(target.counts().of("/status/CODE"), 2);
}

#[test]
fn a_name_that_does_not_resolve_fails_before_any_load() {
    let target = target();
    let plan = "workflows:
  - { name: lost, load: { vus: 2, duration: 5s }, steps: [ { get: 'http://no-such-host.invalid/' } ] }
  - { name: found, steps: [ { get: 'TARGET/' } ] }
";
    let run = Runner::to(url(&target)).cores(2).run(plan);
    assert!(failed(&run, "lost").contains("no-such-host.invalid"), "{}", failed(&run, "lost"));
    assert_eq!(run.0.outcome, Outcome::Partial);
    assert_eq!(run.total().requests, 1, "only the other workflow's");
    assert!(run.0.elapsed < Duration::from_secs(3));

    let alone = "workflows: [ { name: lost, steps: [ { get: 'http://no-such-host.invalid/' } ] } ]";
    let run = Runner::to("").run(alone);
    assert_eq!(run.0.outcome, Outcome::Failed);
    assert_eq!(run.0.verdict.state, VerdictState::Invalid, "silence is not success");
    assert_eq!(run.errors(ErrorKind::Dns), 0, "no request was made");
}

#[test]
fn a_plan_that_takes_longer_than_it_may_times_out() {
    let target = target();
    let plan = "target: TARGET
timeout: 400ms
workflows:
  - { name: w, load: { vus: 2, duration: 30s, graceful_stop: 200ms }, steps: [ { get: /delay/100 } ] }
  - { name: later, depends_on: [w], steps: [ { get: /bytes/1 } ] }
";
    let run = Runner::to(url(&target)).run(plan);
    assert_eq!((run.0.outcome, run.0.stop.clone()), (Outcome::Timeout, StopReason::Timeout));
    assert!(run.0.elapsed < Duration::from_millis(1600), "{:?}", run.0.elapsed);
    assert_eq!(target.counts().of("/bytes/N"), 0, "nothing starts after the time is over");
    run.assert_seen_by(&target);
    assert!(run.says("timeout"), "{:?}", run.0.timeline);
}

#[test]
fn a_setup_that_hangs_does_not_outlast_the_plans_timeout() {
    let target = target();
    for place in ["plan", "workflow"] {
        let setup = "setup: [ { get: /delay/20000 } ]";
        let (outer, inner) = if place == "plan" { (setup, "") } else { ("", setup) };
        let plan = format!(
            "target: TARGET\ntimeout: 300ms\n{outer}\nworkflows:\n  - name: w\n    load: {{ graceful_stop: 200ms }}\n    {inner}\n    steps: [ {{ get: / }} ]\n"
        );
        let run = Runner::to(url(&target)).run(&plan);
        assert_eq!(run.0.outcome, Outcome::Timeout, "{place}");
        assert!(run.0.elapsed < Duration::from_secs(2), "{place}: {:?}", run.0.elapsed);
        assert_eq!(run.total().interrupted, 1, "{place}: its request is counted");
    }
}
