//! The lines before a run. Every expectation here is what k6 prints for the same options.

use super::super::{describe, max_vus};
use super::accepted;

#[track_caller]
fn check(options: &str, expected: &[&str]) {
    assert_eq!(describe(&accepted(options)), expected, "{options}");
}

#[track_caller]
fn check_scenario(keys: &str, expected: &str) {
    let resolved = accepted(&format!(r#"{{"scenarios": {{"a": {{"executor": {keys}}}}}}}"#));
    assert_eq!(describe(&resolved)[1], expected, "{keys}");
}

#[test]
fn one_line_for_all_and_one_for_each() {
    check(
        "{}",
        &[
            "(100.00%) 1 scenario, 1 max VUs, 10m30s max duration (incl. graceful stop):",
            "* default: 1 iterations for each of 1 VUs (maxDuration: 10m0s, gracefulStop: 30s)",
        ],
    );
    check(
        r#"{"scenarios": {
            "B": {"executor": "shared-iterations", "startTime": "1s"},
            "a": {"executor": "constant-vus", "duration": "1s"}}}"#,
        &[
            "(100.00%) 2 scenarios, 2 max VUs, 10m31s max duration (incl. graceful stop):",
            "* a: 1 looping VUs for 1s (gracefulStop: 30s)",
            "* B: 1 iterations shared among 1 VUs \
             (maxDuration: 10m0s, startTime: 1s, gracefulStop: 30s)",
        ],
    );
    check(
        r#"{"executionSegment": "1/2:1", "vus": 5, "iterations": 7}"#,
        &[
            "(50.00%) 1 scenario, 2 max VUs, 10m30s max duration (incl. graceful stop):",
            "* default: 3 iterations shared among 2 VUs (maxDuration: 10m0s, gracefulStop: 30s)",
        ],
    );
}

#[test]
fn each_executor_has_its_words() {
    for (keys, line) in [
        (r#""constant-vus", "duration": "1s", "gracefulStop": "0s""#, "* a: 1 looping VUs for 1s"),
        (
            r#""per-vu-iterations", "vus": 3, "iterations": 2, "exec": "b", "maxDuration": "1m""#,
            "* a: 2 iterations for each of 3 VUs (maxDuration: 1m0s, exec: b, gracefulStop: 30s)",
        ),
        (
            r#""ramping-vus", "startVUs": 5, "gracefulRampDown": "50s", "gracefulStop": "10s",
               "exec": "b", "startTime": "1s", "stages": [{"duration": "1s", "target": 2}]"#,
            "* a: Up to 5 looping VUs for 1s over 1 stages \
             (gracefulRampDown: 50s, exec: b, startTime: 1s, gracefulStop: 10s)",
        ),
        (
            r#""constant-arrival-rate", "rate": 5, "timeUnit": "1m", "duration": "1s",
               "preAllocatedVUs": 2, "maxVUs": 7, "gracefulStop": "1s""#,
            "* a: 0.08 iterations/s for 1s (maxVUs: 2-7, gracefulStop: 1s)",
        ),
        (
            r#""ramping-arrival-rate", "startRate": 30, "timeUnit": "1m", "preAllocatedVUs": 3,
               "stages": [{"duration": "1s", "target": 10}, {"duration": "1s", "target": 90}]"#,
            "* a: Up to 1.50 iterations/s for 2s over 2 stages (maxVUs: 3, gracefulStop: 30s)",
        ),
        (
            r#""externally-controlled", "vus": 1, "maxVUs": 2, "duration": "1s", "exec": "b""#,
            "* a: Externally controlled execution with 1 VUs, 2 max VUs, 1s duration",
        ),
        (
            r#""externally-controlled", "vus": 1, "maxVUs": 2, "duration": 0"#,
            "* a: Externally controlled execution with 1 VUs, 2 max VUs, infinite duration",
        ),
    ] {
        check_scenario(keys, line);
    }
}

/// `("b", startVUs, stages, gracefulRampDown, gracefulStop, startTime)`, as k6 writes them.
fn ramp(start: u32, stages: &[(&str, u32)], ramp_down: &str, stop: &str, at: &str) -> String {
    let stages: Vec<String> = stages
        .iter()
        .map(|(duration, target)| format!(r#"{{"duration": "{duration}", "target": {target}}}"#))
        .collect();
    format!(
        r#"{{"executor": "ramping-vus", "startVUs": {start}, "stages": [{}],
            "gracefulRampDown": "{ramp_down}", "gracefulStop": "{stop}", "startTime": "{at}"}}"#,
        stages.join(",")
    )
}

fn constant(vus: u32, duration: &str, stop: &str, at: &str) -> String {
    format!(
        r#"{{"executor": "constant-vus", "vus": {vus}, "duration": "{duration}",
            "gracefulStop": "{stop}", "startTime": "{at}"}}"#
    )
}

#[test]
fn virtual_users_are_counted_as_long_as_they_may_be_needed() {
    let up_and_down = [("1s", 10), ("1s", 0)];
    let jump = [("1s", 1), ("0s", 5), ("1s", 5)];
    for (scenarios, vus, length) in [
        // Who leaves when another comes makes room.
        (vec![("b", constant(3, "1s", "0s", "0s")), ("c", constant(2, "1s", "0s", "1s"))], 3, "2s"),
        (vec![("b", constant(3, "1s", "1s", "0s")), ("c", constant(2, "1s", "0s", "1s"))], 5, "2s"),
        // A ramp gives its users back one by one, each after the time to finish.
        (
            vec![
                ("b", ramp(0, &up_and_down, "0s", "0s", "0s")),
                ("c", constant(2, "1s", "0s", "1500ms")),
            ],
            10,
            "2.5s",
        ),
        (
            vec![
                ("b", ramp(0, &up_and_down, "200ms", "0s", "0s")),
                ("c", constant(20, "1s", "0s", "1500ms")),
            ],
            27,
            "2.5s",
        ),
        // The graceful stop ends all waiting.
        (
            vec![
                ("b", ramp(0, &up_and_down, "30s", "500ms", "0s")),
                ("c", constant(20, "1s", "0s", "2s")),
            ],
            30,
            "3s",
        ),
        (
            vec![
                ("b", ramp(0, &[("1s", 10), ("1s", 3)], "0s", "500ms", "0s")),
                ("c", constant(20, "1s", "0s", "2s")),
            ],
            23,
            "3s",
        ),
        (vec![("b", ramp(0, &up_and_down, "1s", "30s", "0s"))], 10, "3s"),
        (vec![("b", ramp(0, &up_and_down, "30s", "0s", "0s"))], 10, "2s"),
        // A number that lasts for a moment only counts all the same.
        (vec![("b", ramp(1, &[("1s", 5)], "0s", "0s", "0s"))], 5, "1s"),
        (vec![("b", ramp(1, &[("1s", 20), ("0s", 4)], "0s", "1s", "0s"))], 20, "2s"),
        // At the same moment, who is listed first goes first.
        (
            vec![("b", constant(5, "1s", "0s", "0s")), ("c", ramp(1, &jump, "0s", "0s", "0s"))],
            6,
            "2s",
        ),
        (
            vec![("c", constant(5, "1s", "0s", "0s")), ("b", ramp(1, &jump, "0s", "0s", "0s"))],
            10,
            "2s",
        ),
    ] {
        let entries: Vec<String> =
            scenarios.iter().map(|(name, scenario)| format!(r#""{name}": {scenario}"#)).collect();
        let resolved = accepted(&format!(r#"{{"scenarios": {{{}}}}}"#, entries.join(",")));
        let header = describe(&resolved).swap_remove(0);
        let expected = format!(", {vus} max VUs, {length} max duration (incl. graceful stop):");
        assert!(header.ends_with(&expected), "{scenarios:?}\n{header}\n{expected}");
        assert_eq!(max_vus(&resolved.scenarios), vus);
    }
}
