//! Levels: the environment, and who wins over whom.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{
    DnsPolicy, DnsSelect, HttpDebug, Options, OptionsError, Place, StageOptions, describe, resolve,
};
use super::{json, read};

fn env(variables: &[(&str, &str)]) -> Result<Options, OptionsError> {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    Options::from_env(&variables.iter().map(owned).collect::<BTreeMap<_, _>>())
}

fn level(text: &str, place: Place) -> Options {
    Options::from_json(&json(text), place).unwrap_or_else(|error| panic!("{text}: {error}")).0
}

fn script(text: &str) -> Options {
    level(text, Place::Script)
}

#[test]
fn variables_set_options() {
    let options = env(&[
        ("K6_VUS", "3"),
        ("K6_DURATION", "90s"),
        ("K6_STAGES", "10s:5,1m:20"),
        ("K6_THROW", "true"),
        ("K6_DNS", "ttl=1m,select=first"),
        ("K6_TAGS", "a:b,c:d"),
        ("K6_SYSTEM_TAGS", "url,vu"),
        ("K6_BLACKLIST_IPS", "10.0.0.0/8,11.0.0.0/8"),
        ("K6_SUMMARY_TREND_STATS", "avg,p(99)"),
        ("K6_HTTP_DEBUG", "full"),
        ("K6_THRESHOLDS", r#"{"checks": ["rate>0.9"]}"#),
        ("K6_LOCAL_IPS", "127.0.0.1-127.0.0.3"),
        ("K6_SETUP_TIMEOUT", "5"),
        // Not options, or nothing at all.
        ("K6_USER_AGENT", ""),
        ("K6_OUT", "json"),
        ("PATH", "/bin"),
    ])
    .expect("legal");
    assert_eq!(options.vus, Some(3));
    assert_eq!(options.duration, Some(Duration::from_secs(90)));
    let second = StageOptions { duration: Some(Duration::from_secs(60)), target: Some(20) };
    assert_eq!(options.stages.expect("stages")[1], second);
    assert_eq!(options.throw, Some(true));
    assert_eq!(options.dns.select, Some(DnsSelect::First));
    assert_eq!(options.tags.expect("tags")["c"], "d");
    assert_eq!(options.system_tags, Some(vec!["url".to_string(), "vu".to_string()]));
    assert_eq!(options.blacklist_ips.expect("networks").len(), 2);
    assert_eq!(options.http_debug, Some(HttpDebug::Full));
    assert_eq!(options.thresholds.expect("thresholds")[0].1[0].threshold, "rate>0.9");
    assert_eq!(options.local_ips.expect("addresses").1.len(), 3);
    assert_eq!(options.setup_timeout, Some(Duration::from_millis(5)));
    assert_eq!(options.user_agent, None);
    assert_eq!(options.load_place, Some(Place::Environment));
    assert_eq!(env(&[]), Ok(Options::default()));
}

#[test]
fn wrong_variables_are_named() {
    for (name, value, said) in [
        ("K6_VUS", "x", "environment: K6_VUS: `x` is not a whole number"),
        ("K6_ITERATIONS", "1.5", "environment: K6_ITERATIONS: `1.5` is not"),
        ("K6_DURATION", "x", "environment: K6_DURATION: `x` is not a duration"),
        ("K6_STAGES", "x", "environment: K6_STAGES: `x` is not a duration"),
        ("K6_THROW", "1", "environment: K6_THROW: `1` is neither true nor false"),
        ("K6_DNS", "bogus=1", "environment: K6_DNS: DNS has no setting `bogus`"),
        ("K6_TAGS", "a", "environment: K6_TAGS: `a` is not a tag"),
        ("K6_THRESHOLDS", r#"{"a":[5]}"#, "a[0]: `5` is not a threshold"),
        ("K6_LOCAL_IPS", "x", "environment: K6_LOCAL_IPS: `x` is not an address"),
    ] {
        let error = env(&[(name, value)]).expect_err(name).to_string();
        assert!(error.contains(said), "{name}={value}: {error}");
    }
}

/// What is run when these levels are given, config file first.
fn outcome(levels: &[&str]) -> String {
    let places = [Place::ConfigFile("c.json".into()), Place::Script, Place::CommandLine];
    let levels = levels.iter().zip(places).map(|(text, place)| level(text, place));
    let (resolved, _) = resolve(Options::merge(levels)).expect("legal");
    describe(&resolved)[1].split(" (").next().unwrap_or_default().to_string()
}

#[test]
fn a_level_with_a_load_replaces_all_loads_below() {
    let scenarios =
        r#"{"vus": 2, "scenarios": {"a": {"executor": "constant-vus", "duration": "1s"}}}"#;
    for (levels, expected) in [
        (
            ["{}", r#"{"iterations": 3}"#, r#"{"duration": "1s"}"#],
            "* default: 1 looping VUs for 1s",
        ),
        (["{}", scenarios, r#"{"iterations": 4}"#], "* default: 4 iterations shared among 2 VUs"),
        (
            [
                "{}",
                r#"{"duration": "1s", "vus": 3}"#,
                r#"{"stages": [{"duration": "9s", "target": 2}]}"#,
            ],
            "* default: Up to 3 looping VUs for 9s over 1 stages",
        ),
        // Without a load of its own, a level only adds.
        (["{}", r#"{"duration": "1s"}"#, r#"{"vus": 3}"#], "* default: 3 looping VUs for 1s"),
        (
            [r#"{"duration": "1s"}"#, r#"{"duration": null}"#, "{}"],
            "* default: 1 looping VUs for 1s",
        ),
        ([scenarios, "{}", "{}"], "* a: 1 looping VUs for 1s"),
        // What a lower level mixes up does not matter any more.
        (
            [
                "{}",
                r#"{"duration": "1s", "stages": [{"duration": "1s", "target": 1}]}"#,
                r#"{"iterations": 3}"#,
            ],
            "* default: 3 iterations shared among 1 VUs",
        ),
        // An empty list is a load, too.
        (
            [r#"{"duration": "1s"}"#, r#"{"stages": []}"#, "{}"],
            "* default: 1 iterations for each of 1 VUs",
        ),
    ] {
        assert_eq!(outcome(&levels), expected, "{levels:?}");
    }
}

#[test]
fn replaced_scenarios_are_mentioned() {
    let scenarios = script(r#"{"scenarios": {"a": {"executor": "shared-iterations"}}}"#);
    let flags = level(r#"{"duration": "1s"}"#, Place::CommandLine);
    let (_, warnings) = resolve(Options::merge([scenarios.clone(), flags])).expect("legal");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].to_string().contains("replaced by what the command line set"));
    let (_, warnings) = resolve(Options::merge([scenarios])).expect("legal");
    assert_eq!(warnings, []);
}

#[test]
fn other_options_are_replaced_key_by_key() {
    let lower = script(r#"{"tags": {"x": "y"}, "rps": 5, "batch": 1, "dns": {"policy": "any"}}"#);
    let higher = script(r#"{"tags": {"a": "b"}, "rps": 7, "dns": {"ttl": "1m"}}"#);
    let merged = Options::merge([lower, higher]);
    assert_eq!(merged.tags, Some([("a".to_string(), "b".to_string())].into()));
    assert_eq!((merged.rps, merged.batch), (Some(7), Some(1)));
    // DNS settings are keys of their own.
    assert_eq!(merged.dns.policy, Some(DnsPolicy::Any));
    assert_eq!(merged.dns.ttl.map(|ttl| ttl.written), Some("1m".to_string()));
}

#[test]
fn problems_of_a_merged_load_name_the_level_it_comes_from() {
    let env = env(&[("K6_STAGES", "1s")]).expect("legal as such");
    let error = resolve(Options::merge([script(r#"{"vus": 3}"#), env])).expect_err("no target");
    assert!(error.to_string().starts_with("environment: stages[0].target: it is missing"));
}

#[test]
fn config_files_may_hold_settings_of_the_run() {
    let text = r#"{"linger": true, "out": ["json"], "vus": 1}"#;
    let read_as = |place| Options::from_json(&json(text), place).expect("legal").1.len();
    assert_eq!(read_as(Place::ConfigFile("c.json".into())), 0);
    assert_eq!(read_as(Place::Script), 2);
    assert!(read(text).is_ok());
}
