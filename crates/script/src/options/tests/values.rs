//! Single values: what is read, and what is not.

use std::time::Duration;

use super::super::values::{
    boolean, dns, dns_ttl, duration, duration_text, local_addresses, stage, stages, tag, trend_stat,
};
use super::super::{DnsPolicy, DnsSelect, HostAddress, HostnamePattern, IpRange, StageOptions};

#[test]
fn durations_are_read_and_printed_as_go_does() {
    for (text, printed) in [
        ("500ms", "500ms"),
        ("30s", "30s"),
        ("1m30s", "1m30s"),
        ("90s", "1m30s"),
        ("10m", "10m0s"),
        ("1h30m", "1h30m0s"),
        ("1d", "24h0m0s"),
        ("1d2h", "26h0m0s"),
        ("0d1s", "1s"),
        ("1m1m", "2m0s"),
        (".5s", "500ms"),
        ("1.s", "1s"),
        ("+1s", "1s"),
        ("1us1ns", "1.001µs"),
        ("1µs", "1µs"),
        ("90061.5s", "25h1m1.5s"),
        ("100000h", "100000h0m0s"),
        // Without a unit, milliseconds.
        ("0", "0s"),
        ("1500", "1.5s"),
        ("1.5", "1.5ms"),
        ("1e3", "1s"),
        ("90000.5", "1m30.0005s"),
    ] {
        let read = duration(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        assert_eq!(duration_text(read), printed, "{text}");
    }
    for text in [
        "",
        "abc",
        "1w",
        "1D",
        "1s ",
        " 1s",
        "1.5d",
        "1d1d",
        "2h1d",
        "1d-2h",
        "s",
        ".s",
        "-1s",
        "-1d",
        "-5",
        "inf",
        "NaN",
        "999999999h",
        "1e300",
    ] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn a_stage_is_a_duration_with_a_unit_and_a_target() {
    let stage_of = |seconds, target| StageOptions {
        duration: Some(Duration::from_secs(seconds)),
        target: Some(target),
    };
    assert_eq!(stage("10s:5"), Ok(stage_of(10, 5)));
    assert_eq!(stages("10s:5,1m:20"), Ok(vec![stage_of(10, 5), stage_of(60, 20)]));
    assert_eq!(stages(""), Ok(vec![]));
    let without_target = StageOptions { target: None, ..stage_of(1, 0) };
    assert_eq!(stage("1s"), Ok(without_target));
    for text in ["5", "5:10", "x", "1s:x", "1s:5:6", "1s:-1", "1s,2"] {
        assert!(stages(text).is_err(), "{text}");
    }
}

#[test]
fn a_tag_has_a_name_and_a_value() {
    assert_eq!(tag("a=b=c"), Ok(("a".to_string(), "b=c".to_string())));
    for text in ["a", "a=", "=b", ""] {
        assert!(tag(text).is_err(), "{text}");
    }
}

#[test]
fn dns_settings_are_read_in_any_order() {
    let read = dns("policy=onlyIPv6,ttl=1m,select=roundRobin").expect("legal");
    assert_eq!(read.policy, Some(DnsPolicy::OnlyIpv6));
    assert_eq!(read.select, Some(DnsSelect::RoundRobin));
    assert_eq!(read.ttl.and_then(|ttl| ttl.keep), Some(Duration::from_secs(60)));
    assert_eq!(dns_ttl("inf").map(|ttl| ttl.keep), Ok(None));
    assert_eq!(dns_ttl("0").map(|ttl| ttl.keep), Ok(Some(Duration::ZERO)));
    assert_eq!(dns_ttl("1").map(|ttl| ttl.keep), Ok(Some(Duration::from_millis(1))));
    for text in ["x", "bogus=1", "ttl=x", "ttl=-1s", "select=roundrobin", "policy=ipv4"] {
        assert!(dns(text).is_err(), "{text}");
    }
    let wrong = dns("select=randon").expect_err("misspelt").to_string();
    assert!(wrong.contains("did you mean `random`?"), "{wrong}");
}

#[test]
fn only_true_and_false_are_booleans() {
    assert_eq!(boolean("true"), Ok(true));
    assert_eq!(boolean("false"), Ok(false));
    for text in ["1", "yes", "maybe", "True"] {
        assert!(boolean(text).is_err(), "{text}");
    }
}

#[test]
fn statistics_are_names_and_percentiles() {
    for text in ["avg", "min", "med", "max", "count", "p(0)", "p(99.9)", "p(100)"] {
        assert!(trend_stat(text).is_ok(), "{text}");
    }
    for text in ["bogus", "p(101)", "p(-1)", "p()", "p95"] {
        assert!(trend_stat(text).is_err(), "{text}");
    }
}

#[test]
fn source_addresses_are_listed() {
    for (text, addresses) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.6.3-127.0.6.5", "127.0.6.3 127.0.6.4 127.0.6.5"),
        ("127.0.7.1,127.0.8.1-127.0.8.2", "127.0.7.1 127.0.8.1 127.0.8.2"),
        // A network's first and last address are nobody's.
        ("127.0.5.0/29", "127.0.5.1 127.0.5.2 127.0.5.3 127.0.5.4 127.0.5.5 127.0.5.6"),
        ("127.0.9.0/31", "127.0.9.0 127.0.9.1"),
        ("127.0.9.1/32", "127.0.9.1"),
        ("fd::/126", "fd::1 fd::2"),
    ] {
        let listed = local_addresses(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(listed.join(" "), addresses, "{text}");
    }
    for text in ["x", "", "1.2.3.4-", "1.2.3.9-1.2.3.4", "1.2.3.4-::1", "10.0.0.0/8", "::/0"] {
        assert!(local_addresses(text).is_err(), "{text}");
    }
}

#[test]
fn hosts_are_found_at_addresses_with_or_without_a_port() {
    for text in ["1.2.3.4", "1.2.3.4:80", "::1", "[::1]:80"] {
        let address = HostAddress::parse(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        assert_eq!(address.to_string(), text);
    }
    for text in ["x", "1.2.3.4:x", "1.2.3.4:99999", ""] {
        assert!(HostAddress::parse(text).is_err(), "{text}");
    }
}

#[test]
fn patterns_match_whole_names_in_any_case() {
    let matches = |pattern: &str, host: &str| {
        HostnamePattern::parse(pattern).expect("a pattern").matches(host)
    };
    assert!(matches("*.a.com", "shop.A.com"));
    assert!(!matches("*.a.com", "a.com"));
    assert!(matches("B.com", "b.com"));
    assert!(!matches("b.com", "bb.com"));
    assert!(matches("*", "anything"));
    for pattern in ["a.*.com", "a*", "ä.com", "a b"] {
        assert!(HostnamePattern::parse(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn networks_contain_their_addresses() {
    let contains = |range: &str, address: &str| {
        let range = IpRange::parse(range).expect("a network");
        range.contains(address.parse().expect("an address"))
    };
    assert!(contains("10.0.0.1/8", "10.255.0.1"));
    assert!(!contains("10.0.0.0/8", "11.0.0.1"));
    assert!(contains("10.0.0.0/8", "::ffff:10.1.1.1"));
    assert!(contains("0.0.0.0/0", "1.2.3.4"));
    assert!(contains("::1/128", "::1"));
    assert!(!contains("::/0", "1.2.3.4"));
    for text in ["10.0.0.1", "x", "10.0.0.0/33", "::/129", "10.0.0.0/-1"] {
        assert!(IpRange::parse(text).is_err(), "{text}");
    }
}
