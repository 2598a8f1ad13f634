//! What scripts see of the options, and what the client is told.

use std::time::Duration;

use plan::IpFamily;

use super::super::{Threshold, http_settings};
use super::{accepted, json, read};

#[test]
fn scripts_see_every_key_and_no_shortcut() {
    let shown = accepted("{}").options.to_json();
    let scenario = r#"{"default": {"executor": "per-vu-iterations", "startTime": null,
        "gracefulStop": null, "env": null, "exec": null, "tags": null, "vus": null,
        "iterations": null, "maxDuration": null}}"#;
    assert_eq!(shown["scenarios"], json(scenario));
    assert_eq!(shown["dns"], json(r#"{"ttl": null, "select": null, "policy": null}"#));
    let stats = r#"["avg", "min", "med", "max", "p(90)", "p(95)"]"#;
    assert_eq!(shown["summaryTrendStats"], json(stats));
    let tags = r#"["check", "error", "error_code", "expected_response", "group", "method", "name",
        "proto", "scenario", "service", "status", "subproto", "tls_version", "url"]"#;
    assert_eq!(shown["systemTags"], json(tags));
    let keys: Vec<&String> = shown.as_object().expect("an object").keys().collect();
    assert_eq!(keys[..3], ["paused", "scenarios", "executionSegment"]);
    assert_eq!(keys.len(), 37);
    assert!(shown.get("vus").is_none() && shown["userAgent"].is_null());
}

#[test]
fn scripts_see_values_in_their_consolidated_form() {
    let shown = accepted(
        r#"{"vus": 2, "duration": 1000, "tags": {"b": "c", "a": null}, "setupTimeout": "1m",
            "thresholds": {"http_reqs": ["count>=0", {"threshold": "count>=1"},
                {"threshold": "count>=2", "abortOnFail": true, "delayAbortEval": 1500},
                {"threshold": "count>=3", "delayAbortEval": "3s"}], "checks": []},
            "hosts": {"z": "[::1]:80", "a.b": "1.2.3.4:80"}, "dns": {"ttl": "5000"},
            "blacklistIPs": ["10.0.0.1/8", "::1/64"], "blockHostnames": ["*.a.com"],
            "tlsVersion": "tls1.2", "cloud": {"z": 1}, "systemTags": ["vu", "url", "url", "nope"],
            "minIterationDuration": 5, "executionSegment": "0:1"}"#,
    )
    .options
    .to_json();
    for (key, value) in [
        ("tags", r#"{"a": "", "b": "c"}"#),
        ("setupTimeout", r#""1m0s""#),
        (
            "thresholds",
            r#"{"checks": [], "http_reqs": ["count>=0", "count>=1",
                {"threshold": "count>=2", "abortOnFail": true, "delayAbortEval": "1.5s"},
                "count>=3"]}"#,
        ),
        ("hosts", r#"{"a.b": "1.2.3.4:80", "z": "[::1]:80"}"#),
        ("dns", r#"{"ttl": "5000", "select": null, "policy": null}"#),
        ("blacklistIPs", r#"["10.0.0.0/8", "::/64"]"#),
        ("blockHostnames", r#"["*.a.com"]"#),
        ("tlsVersion", r#"{"min": "tls1.2", "max": "tls1.2"}"#),
        ("cloud", r#"{"z": 1}"#),
        ("systemTags", r#"["url", "vu"]"#),
        ("minIterationDuration", r#""5ms""#),
        ("executionSegment", r#""0:1""#),
    ] {
        assert_eq!(shown[key], json(value), "{key}");
    }
    let scenario = &shown["scenarios"]["default"];
    assert_eq!(scenario["executor"], "constant-vus");
    assert_eq!((&scenario["vus"], &scenario["duration"]), (&2.into(), &"1s".into()));
    // Maps are in the order of their keys.
    let hosts: Vec<&String> = shown["hosts"].as_object().expect("an object").keys().collect();
    assert_eq!(hosts, ["a.b", "z"]);
}

#[test]
fn what_scripts_see_can_be_read_again() {
    let options = accepted(
        r#"{"stages": [{"duration": "90s", "target": 2}], "tlsVersion": {"min": "tls1.2"},
            "thresholds": {"checks": [{"threshold": "rate>0", "abortOnFail": true}]},
            "hosts": {"a": "1.2.3.4"}, "executionSegment": "1/2:1", "blockHostnames": ["*.x"]}"#,
    )
    .options;
    let (again, warnings) = read(&options.to_json().to_string()).expect("legal");
    assert_eq!(warnings, []);
    assert_eq!(again.to_json(), options.to_json());
}

#[test]
fn thresholds_keep_their_order() {
    let (options, _) = read(
        r#"{"thresholds": {"z": ["avg<2", {"threshold": "max<9", "abortOnFail": true,
            "delayAbortEval": "10s"}], "a{b:c}": ["min>0"], "checks": null}}"#,
    )
    .expect("legal");
    let plain = |text: &str| Threshold {
        threshold: text.to_string(),
        abort_on_fail: false,
        delay_abort_eval: None,
    };
    let aborting = Threshold {
        abort_on_fail: true,
        delay_abort_eval: Some(Duration::from_secs(10)),
        ..plain("max<9")
    };
    let expected = vec![
        ("z".to_string(), vec![plain("avg<2"), aborting]),
        ("a{b:c}".to_string(), vec![plain("min>0")]),
        ("checks".to_string(), vec![]),
    ];
    assert_eq!(options.thresholds, Some(expected));
}

#[test]
fn the_client_has_the_defaults_of_k6() {
    let settings = http_settings(&accepted("{}").options);
    assert_eq!((settings.batch, settings.batch_per_host), (20, 6));
    assert_eq!(settings.http.redirects, 10);
    assert!(settings.http.keep_alive && settings.http.cookies && !settings.http.keep_cookies);
    assert!(!settings.http.tls.insecure && !settings.throw && !settings.close_after_iteration);
    assert_eq!(settings.http.dns_refresh, Some(Duration::from_secs(300)));
    assert_eq!((settings.http.ip, settings.http.first_address), (IpFamily::Any, false));
    assert_eq!(settings.requests_per_second_max, None);
}

#[test]
fn the_client_is_told_what_the_options_say() {
    let settings = http_settings(
        &accepted(
            r#"{"insecureSkipTLSVerify": true, "noConnectionReuse": true, "maxRedirects": 0,
                "noVUConnectionReuse": true, "userAgent": "me", "rps": 7, "throw": true,
                "noCookiesReset": true, "discardResponseBodies": true, "localIPs": "127.0.0.1",
                "dns": {"ttl": "inf", "policy": "onlyIPv6", "select": "first"},
                "hosts": {"a.b": "1.2.3.4:80", "*.c": "::1"},
                "tlsVersion": {"min": "tls1.2"},
                "tlsAuth": [{"domains": ["a"], "cert": "-----BEGIN A", "key": "-----BEGIN B"}]}"#,
        )
        .options,
    );
    assert!(settings.http.tls.insecure && settings.close_after_iteration && settings.throw);
    assert!(!settings.http.keep_alive && settings.http.keep_cookies);
    assert!(settings.discard_response_bodies);
    assert_eq!(settings.http.redirects, 0);
    assert_eq!(settings.user_agent.as_deref(), Some("me"));
    assert_eq!(settings.requests_per_second_max, Some(7));
    assert_eq!(settings.http.dns_refresh, None);
    assert_eq!((settings.http.ip, settings.http.first_address), (IpFamily::V6, true));
    let hosts = [("a.b", "1.2.3.4:80"), ("*.c", "::1")];
    assert_eq!(settings.http.hosts, hosts.map(|(name, to)| (name.to_owned(), to.to_owned())));
    assert_eq!(settings.http.local_addresses.len(), 1);
    assert_eq!(settings.http.tls.versions, (true, true));
    let identity = ("-----BEGIN A".to_owned(), "-----BEGIN B".to_owned());
    assert_eq!(settings.http.tls.identity, Some(identity));
}
