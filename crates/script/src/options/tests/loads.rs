//! From options to loads: all executors, all shortcuts, all defaults.

use std::time::Duration;

use plan::{Executor, Load, Rate, Span, Stage};

use super::super::{ENDLESS, Resolved};
use super::{accepted, warnings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn load(executor: Executor) -> Load {
    let zero = Duration::ZERO;
    Load { executor, start_after: zero, graceful_stop: seconds(30), warmup: None, pacing: None }
}

fn only(resolved: Resolved) -> super::super::Scenario {
    let [scenario] = <[_; 1]>::try_from(resolved.scenarios).expect("one scenario");
    scenario
}

fn stage<T>(over: u64, to: T) -> Stage<T> {
    Stage { name: None, to, over: seconds(over) }
}

#[test]
fn shortcuts_stand_for_one_scenario() {
    let ten_minutes = seconds(600);
    let shared = |vus, iterations, max_duration| Executor::SharedIterations {
        vus,
        iterations,
        max_duration,
    };
    for (options, executor) in [
        ("{}", Executor::PerVuIterations { vus: 1, iterations: 1, max_duration: ten_minutes }),
        (r#"{"vus": 3}"#, shared(3, 3, ten_minutes)),
        (r#"{"iterations": 7}"#, shared(1, 7, ten_minutes)),
        (r#"{"vus": 3, "iterations": 7}"#, shared(3, 7, ten_minutes)),
        (r#"{"vus": 3, "iterations": 7, "duration": "1m"}"#, shared(3, 7, seconds(60))),
        (r#"{"iterations": 7, "stages": []}"#, shared(1, 7, ten_minutes)),
        (r#"{"duration": "30s"}"#, Executor::ConstantVus { vus: 1, duration: seconds(30) }),
        (
            r#"{"vus": "", "iterations": "", "duration": "5s"}"#,
            Executor::ConstantVus { vus: 1, duration: seconds(5) },
        ),
        (
            r#"{"VUs": "3", "duration": 5000}"#,
            Executor::ConstantVus { vus: 3, duration: seconds(5) },
        ),
        (
            r#"{"stages": [{"duration": "10s", "target": 5}, {"duration": 0, "target": 0}]}"#,
            Executor::RampingVus {
                start: 1,
                stages: vec![stage(10, 5), stage(0, 0)],
                graceful_ramp_down: seconds(30),
            },
        ),
        (
            r#"{"vus": 0, "stages": [{"duration": "10s", "target": 5}]}"#,
            Executor::RampingVus {
                start: 0,
                stages: vec![stage(10, 5)],
                graceful_ramp_down: seconds(30),
            },
        ),
    ] {
        let scenario = only(accepted(options));
        assert_eq!(scenario.load, load(executor), "{options}");
        assert_eq!((&*scenario.name, &*scenario.exec), ("default", "default"), "{options}");
    }
}

#[test]
fn executors_have_the_defaults_of_k6() {
    let per_second = |events| Rate { events, per: seconds(1) };
    let per_minute = |events| Rate { events, per: seconds(60) };
    let ten_minutes = seconds(600);
    for (scenario, executor) in [
        (
            r#""shared-iterations""#,
            Executor::SharedIterations { vus: 1, iterations: 1, max_duration: ten_minutes },
        ),
        (
            r#""per-vu-iterations", "vus": 2, "iterations": 4, "maxDuration": "20s""#,
            Executor::PerVuIterations { vus: 2, iterations: 4, max_duration: seconds(20) },
        ),
        (
            r#""constant-vus", "duration": "20s""#,
            Executor::ConstantVus { vus: 1, duration: seconds(20) },
        ),
        (
            r#""ramping-vus", "stages": [{"duration": "1s", "target": 3}]"#,
            Executor::RampingVus {
                start: 1,
                stages: vec![stage(1, 3)],
                graceful_ramp_down: seconds(30),
            },
        ),
        (
            r#""ramping-vus", "startVUs": 0, "gracefulRampDown": "0s",
               "stages": [{"duration": "1s", "target": 3}]"#,
            Executor::RampingVus {
                start: 0,
                stages: vec![stage(1, 3)],
                graceful_ramp_down: Duration::ZERO,
            },
        ),
        (
            r#""constant-arrival-rate", "rate": 5, "duration": "20s", "preAllocatedVUs": 2"#,
            Executor::ConstantArrivalRate {
                rate: per_second(5),
                duration: seconds(20),
                vus: Some(2),
                max_vus: Some(2),
            },
        ),
        (
            r#""ramping-arrival-rate", "stages": [{"duration": "1s", "target": 90}],
               "timeUnit": "1m", "preAllocatedVUs": 2, "maxVUs": 9"#,
            Executor::RampingArrivalRate {
                start: per_minute(0),
                stages: vec![stage(1, per_minute(90))],
                vus: Some(2),
                max_vus: Some(9),
            },
        ),
    ] {
        let options = format!(r#"{{"scenarios": {{"a": {{"executor": {scenario}}}}}}}"#);
        assert_eq!(only(accepted(&options)).load, load(executor), "{scenario}");
    }
}

#[test]
fn a_scenario_keeps_its_function_environment_tags_and_times() {
    let scenario = only(accepted(
        r#"{"scenarios": {"api": {"executor": "constant-vus", "duration": "1s", "exec": "visit",
            "startTime": "5s", "gracefulStop": "0s", "env": {"A": "1"}, "tags": {"t": "u"}}}}"#,
    ));
    assert_eq!((&*scenario.name, &*scenario.exec), ("api", "visit"));
    assert_eq!(scenario.env["A"], "1");
    assert_eq!(scenario.tags["t"], "u");
    assert_eq!(scenario.load.start_after, seconds(5));
    assert_eq!(scenario.load.graceful_stop, Duration::ZERO);
    assert_eq!(scenario.vus_max, 1);
}

#[test]
fn scenarios_are_in_the_order_of_their_start_and_then_of_their_names() {
    let resolved = accepted(
        r#"{"scenarios": {
            "b": {"executor": "shared-iterations"},
            "late": {"executor": "shared-iterations", "startTime": "1ms"},
            "A": {"executor": "shared-iterations"},
            "a": {"executor": "shared-iterations"}}}"#,
    );
    let names: Vec<&str> = resolved.scenarios.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["A", "a", "b", "late"]);
}

#[test]
fn externally_controlled_starts_with_its_vus_and_may_have_more() {
    let external = |keys: &str| {
        let executor = r#""executor": "externally-controlled""#;
        only(accepted(&format!(r#"{{"scenarios": {{"a": {{{executor}, {keys}}}}}}}"#)))
    };
    let scenario = external(r#""vus": 1, "maxVUs": 5, "duration": "10s""#);
    assert!(scenario.externally_controlled);
    assert_eq!(scenario.vus_max, 5);
    assert_eq!(scenario.load.executor, Executor::ConstantVus { vus: 1, duration: seconds(10) });
    assert_eq!(scenario.load.graceful_stop, Duration::ZERO);

    let endless = external(r#""vus": 3, "duration": 0"#);
    assert_eq!(endless.vus_max, 3);
    assert_eq!(endless.load.executor, Executor::ConstantVus { vus: 3, duration: ENDLESS });
}

#[test]
fn the_least_time_of_an_iteration_paces_virtual_users_that_loop() {
    let pacing = |options: &str| only(accepted(options)).load.pacing;
    let second = Some(Span { min: seconds(1), max: seconds(1) });
    assert_eq!(pacing(r#"{"minIterationDuration": "1s", "duration": "5s"}"#), second);
    assert_eq!(pacing(r#"{"minIterationDuration": 0, "duration": "5s"}"#), None);
    let open = r#"{"minIterationDuration": "1s", "scenarios": {"a": {"rate": 1, "duration": "1s",
        "executor": "constant-arrival-rate", "preAllocatedVUs": 1}}}"#;
    assert_eq!(pacing(open), None);
}

#[test]
fn what_is_ignored_is_said() {
    for (options, said) in [
        (r#"{"vuss": 3}"#, "vuss: there is no such option, it is ignored; did you mean `vus`?"),
        (r#"{"vus": 0}"#, "vus: 0 VUs without iterations, duration or stages"),
        (r#"{"stages": []}"#, "stages: it is empty"),
        (r#"{"scenarios": {}}"#, "scenarios: it is empty"),
        (
            r#"{"stages": [{"duration": "1s", "target": 1, "targt": 2}]}"#,
            "stages[0].targt: there is no such option; did you mean `target`?",
        ),
        (r#"{"systemTags": ["urls"]}"#, "there is no system tag `urls`; did you mean `url`?"),
        (r#"{"rps": -5}"#, "rps: -5 is negative and taken as 0"),
        (r#"{"dns": {"tl": "1m"}}"#, "dns.tl: there is no such option; did you mean `ttl`?"),
        (
            r#"{"scenarios": {"a": {"executor": "ramping-arrival-rate", "preAllocatedVUs": 0,
                "stages": [{"duration": "1s", "target": 1}]}}}"#,
            "scenarios.a: `a` has no virtual users here, it is not run",
        ),
    ] {
        let warnings = warnings(options);
        assert!(warnings.len() == 1 && warnings[0].contains(said), "{options}: {warnings:?}");
        assert!(
            warnings[0].starts_with("script options: ") || warnings[0].starts_with("options: ")
        );
    }
}

#[test]
fn what_is_known_is_not_warned_of() {
    for options in [
        "{}",
        "null",
        r#"{"vus": 3}"#,
        r#"{"cloud": {"projectID": 1}, "ext": {"loadimpact": {"name": "x"}}}"#,
        r#"{"thresholds": {"checks": null, "http_reqs": [], "http_req_duration": ["avg<1"]}}"#,
        r#"{"noConnectionReuse": true, "userAgent": null, "systemTags": ["vu", "iter"]}"#,
    ] {
        assert_eq!(warnings(options), Vec::<String>::new(), "{options}");
    }
}
