//! Options that are refused, each with the place and the remedy that must be named.

use super::refused;

#[track_caller]
fn check(options: &str, expected: &str) {
    let error = refused(options);
    assert!(error.contains(expected), "{options}\n  said    {error}\n  not     {expected}");
}

/// One scenario `a` with this executor and these keys.
#[track_caller]
fn check_scenario(keys: &str, expected: &str) {
    check(&format!(r#"{{"scenarios": {{"a": {{"executor": {keys}}}}}}}"#), expected);
}

#[test]
fn wrong_types_and_numbers() {
    check(r#"{"vus": -1}"#, "script options: vus: -1 is negative");
    check(r#"{"vus": 2.5}"#, "vus: `2.5` is not a whole number");
    check(r#"{"vus": "x"}"#, "vus: `x` is not a whole number");
    check(r#"{"vus": 5000000000}"#, "vus: 5000000000 is too many");
    check(r#"{"iterations": -1}"#, "iterations: -1 is negative");
    check(r#"{"duration": true}"#, "duration: `true` is not a duration; write 500ms");
    check(r#"{"duration": "abc"}"#, "duration: `abc` is not a duration");
    check(r#"{"duration": "-3s"}"#, "duration: the time `-3s` is negative");
    check(r#"{"throw": "true"}"#, "throw: the text `true` is neither true nor false");
    check(r#"{"userAgent": 5}"#, "userAgent: `5` is not a text");
    check(r#"{"maxRedirects": 1.5}"#, "maxRedirects: `1.5` is not a whole number");
    check(r#"{"stages": {}}"#, "stages: an object where a list is expected");
    check(r#"{"stages": ["1s:5"]}"#, "stages[0]: the text `1s:5` where an object is expected");
    check(r#"{"scenarios": []}"#, "scenarios: a list where an object is expected");
    check(r#"{"tags": {"a": 1}}"#, "tags.a: `1` is not a text");
    check("[]", "script options: a list where an object is expected");
    check(r#"{"setupTimeout": "0s"}"#, "setupTimeout: the time must be more than 0");
}

#[test]
fn shortcuts_that_cannot_be_run() {
    check(
        r#"{"vus": 0, "duration": "1s"}"#,
        "vus: the number of virtual users must be more than 0",
    );
    check(r#"{"duration": "0s"}"#, "duration: 0s is too short; write at least 1s");
    check(r#"{"duration": 300}"#, "duration: 300ms is too short");
    check(r#"{"iterations": 1, "duration": 300}"#, "duration: 300ms is too short");
    check(r#"{"vus": 5, "iterations": 2}"#, "iterations: 2 iterations are less than the 5 VUs");
    check(r#"{"iterations": 0}"#, "iterations: 0 iterations are less than the 1 VUs");
    check(r#"{"stages": [{"duration": "1s"}]}"#, "stages[0].target: it is missing");
    check(r#"{"stages": [{"target": 1}]}"#, "stages[0].duration: it is missing");
    check(
        r#"{"vus": 0, "stages": [{"duration": "1s", "target": 0}]}"#,
        "stages: there is never a virtual user",
    );
}

#[test]
fn two_shortcuts_at_one_level() {
    let stages = r#""stages": [{"duration": "1s", "target": 1}]"#;
    let scenarios = r#""scenarios": {"a": {"executor": "shared-iterations"}}"#;
    let together = |names: &str| format!("`{names}` cannot be set together; keep one of them");
    for (options, names) in [
        (format!(r#"{{"duration": "1s", {stages}}}"#), "duration`, `stages"),
        (format!(r#"{{"iterations": 1, {stages}}}"#), "iterations`, `stages"),
        (format!(r#"{{"duration": "1s", {scenarios}}}"#), "duration`, `scenarios"),
        (format!(r#"{{"iterations": 1, {scenarios}}}"#), "iterations`, `scenarios"),
        (format!("{{{stages}, {scenarios}}}"), "stages`, `scenarios"),
        (r#"{"duration": "1s", "scenarios": {}}"#.to_string(), "duration`, `scenarios"),
    ] {
        check(&options, &together(names));
    }
}

#[test]
fn scenarios_that_are_not_understood() {
    check(r#"{"scenarios": {"a": {}}}"#, "scenarios.a.executor: the scenario has no executor");
    check(r#"{"scenarios": {"a": null}}"#, "scenarios.a.executor: the scenario has no executor");
    check(r#"{"scenarios": {"a": []}}"#, "scenarios.a: a list where an object is expected");
    check_scenario("5", "scenarios.a.executor: `5` is not a text");
    check_scenario(
        r#""constant-vu""#,
        "there is no executor `constant-vu`; did you mean `constant-vus`?",
    );
    check_scenario(r#""nope""#, "known: shared-iterations, per-vu-iterations, constant-vus");
    check_scenario(
        r#""constant-vus", "duration": "1s", "iterations": 3"#,
        "scenarios.a.iterations: the executor constant-vus has no such option",
    );
    check_scenario(
        r#""ramping-vus", "startVU": 1, "stages": []"#,
        "scenarios.a.startVU: the executor ramping-vus has no such option; \
         did you mean `startVUs`?",
    );
    check_scenario(
        r#""ramping-vus", "stages": [{"duration": "1s", "target": 1}, {"duratio": "1s"}]"#,
        "scenarios.a.stages[1].duratio: there is no such option; did you mean `duration`?",
    );
    check_scenario(
        r#""ramping-vus", "stages": [{"duration": "1s", "target": 1}, {"duration": "1x"}]"#,
        "scenarios.a.stages[1].duration: `1x` is not a duration",
    );
    check_scenario(
        r#""constant-vus", "duration": "1s", "options": {"zip": 1}"#,
        "scenarios.a.options.zip: there is no such option",
    );
    for name in ["a b", "é", ""] {
        let scenario = r#"{"executor": "shared-iterations"}"#;
        check(
            &format!(r#"{{"scenarios": {{"{name}": {scenario}}}}}"#),
            &format!("`{name}` is not a name for a scenario; use only letters"),
        );
    }
}

#[test]
fn scenarios_that_cannot_be_run() {
    check_scenario(r#""constant-vus""#, "scenarios.a.duration: it is missing");
    check_scenario(r#""constant-vus", "duration": 0"#, "scenarios.a.duration: 0s is too short");
    check_scenario(r#""constant-vus", "duration": "1s", "vus": 0"#, "scenarios.a.vus: the number");
    check_scenario(
        r#""constant-vus", "duration": "1s", "gracefulStop": "-1s""#,
        "scenarios.a.gracefulStop: the time `-1s` is negative",
    );
    check_scenario(
        r#""constant-vus", "duration": "1s", "startTime": -1"#,
        "scenarios.a.startTime: the time `-1` is negative",
    );
    check_scenario(
        r#""constant-vus", "duration": "1s", "exec": """#,
        "scenarios.a.exec: the function's name is empty",
    );
    check_scenario(r#""shared-iterations", "vus": 3"#, "1 iterations are less than the 3 VUs");
    check_scenario(
        r#""shared-iterations", "maxDuration": "500ms""#,
        "scenarios.a.maxDuration: 500ms is too short",
    );
    check_scenario(r#""per-vu-iterations", "iterations": 0"#, "scenarios.a.iterations: the number");
    check_scenario(r#""ramping-vus""#, "scenarios.a.stages: it is missing; add at least one");
    check_scenario(
        r#""ramping-vus", "startVUs": 0, "stages": [{"duration": "1s", "target": 0}]"#,
        "scenarios.a.stages: there is never a virtual user",
    );
    let missing = refused(r#"{"scenarios": {"a": {"executor": "constant-arrival-rate"}}}"#);
    let keys = ["rate", "duration", "preAllocatedVUs"];
    for (line, key) in missing.lines().zip(keys) {
        assert!(line.contains(&format!("scenarios.a.{key}: it is missing")), "{line}");
    }
    assert_eq!(missing.lines().count(), keys.len(), "{missing}");
    let arrival = r#""constant-arrival-rate", "duration": "1s", "preAllocatedVUs": 2"#;
    check_scenario(&format!(r#"{arrival}, "rate": 0"#), "scenarios.a.rate: the rate must be more");
    check_scenario(&format!(r#"{arrival}, "rate": 1.5"#), "scenarios.a.rate: `1.5` is not a whole");
    check_scenario(
        &format!(r#"{arrival}, "rate": 5, "maxVUs": 1"#),
        "scenarios.a.maxVUs: 1 is less than the 2 of preAllocatedVUs",
    );
    check_scenario(
        &format!(r#"{arrival}, "rate": 5, "timeUnit": 0"#),
        "scenarios.a.timeUnit: the time must be more than 0",
    );
    check_scenario(r#""externally-controlled", "vus": 1"#, "scenarios.a.duration: it is missing");
    let external = r#""externally-controlled", "duration": "1s", "vus": 3"#;
    check_scenario(&format!(r#"{external}, "maxVUs": 2"#), "3 VUs are more than the 2 of maxVUs");
    check_scenario(
        &format!(r#"{external}, "gracefulStop": "1s""#),
        "scenarios.a.gracefulStop: externally-controlled does not have it",
    );
}

#[test]
fn thresholds_of_a_wrong_shape() {
    for (thresholds, expected) in [
        ("[]", "thresholds: a list where an object is expected"),
        (r#"{"checks": "rate>0"}"#, "thresholds.checks: the text `rate>0` where a list"),
        (r#"{"checks": {"threshold": "rate>0"}}"#, "thresholds.checks: an object where a list"),
        (r#"{"checks": ["rate>0", 5]}"#, "thresholds.checks[1]: `5` is not a threshold"),
        (r#"{"checks": [null]}"#, "thresholds.checks[0]: null is not a threshold"),
        (r#"{"checks": [""]}"#, "thresholds.checks[0]: the threshold has no expression"),
        (r#"{"checks": [{}]}"#, "thresholds.checks[0]: the threshold has no expression"),
        (
            r#"{"checks": [{"threshold": "rate>0", "abortOnFail": "yes"}]}"#,
            "thresholds.checks[0].abortOnFail: the text `yes` is neither",
        ),
        (
            r#"{"checks": [{"threshold": "rate>0", "delayAbortEval": "x"}]}"#,
            "thresholds.checks[0].delayAbortEval: `x` is not a duration",
        ),
    ] {
        check(&format!(r#"{{"thresholds": {thresholds}}}"#), expected);
    }
}

#[test]
fn names_addresses_and_tls() {
    check(r#"{"dns": "ttl=1m"}"#, "dns: the text `ttl=1m` where an object is expected");
    check(r#"{"dns": {"ttl": 0}}"#, "dns.ttl: `0` is not a text");
    check(r#"{"dns": {"policy": "onlyIPv5"}}"#, "dns.policy: `onlyIPv5` is not a policy");
    check(r#"{"hosts": {"a.*.b": "1.2.3.4"}}"#, "hosts.a.*.b: `a.*.b` is not a host name");
    check(r#"{"hosts": {"a.b": "x"}}"#, "hosts.a.b: `x` is not an IP address");
    check(r#"{"blacklistIPs": ["10.0.0.1"]}"#, "blacklistIPs[0]: `10.0.0.1` is not a network");
    check(r#"{"blockHostnames": ["a b"]}"#, "blockHostnames[0]: `a b` is not a host name");
    check(r#"{"tlsVersion": "tls1.4"}"#, "tlsVersion: `tls1.4` is not a version of TLS");
    check(r#"{"tlsVersion": {"mn": "tls1.2"}}"#, "tlsVersion.mn: there is no such option");
    check(
        r#"{"tlsVersion": {"min": "tls1.3", "max": "tls1.2"}}"#,
        "tlsVersion: tls1.3 is newer than tls1.2; swap min and max",
    );
    check(
        r#"{"tlsCipherSuites": ["TLS_AES_128_GCM_SHA"]}"#,
        "tlsCipherSuites[0]: `TLS_AES_128_GCM_SHA` is not a cipher suite; \
         did you mean `TLS_AES_128_GCM_SHA256`?",
    );
    check(r#"{"tlsAuth": [{"cert": "x"}]}"#, "tlsAuth[0].key: it is missing");
    check(r#"{"tlsAuth": [{"cert": "x"}]}"#, "tlsAuth[0].cert: this is not PEM");
    check(r#"{"summaryTrendStats": ["p(101)"]}"#, "summaryTrendStats[0]: `p(101)` is not a");
    check(r#"{"executionSegment": "2/3:1/3"}"#, "executionSegment: `2/3:1/3` ends where it begins");
}

#[test]
fn all_problems_are_reported_at_once() {
    let error = refused(r#"{"vus": -1, "duration": "x", "scenarios": {"a": {"executor": "b"}}}"#);
    assert_eq!(error.lines().count(), 3, "{error}");
}
