//! Names, the DNS cache, candidates and the waits.

use base::random::SplitMix64;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::cache::Lookup;
use super::super::*;
use super::*;

fn question() -> Question {
    Question::Address { name: "nodes.example.org".into(), port: 9000 }
}

fn answer(hosts: &[u8], ttl: Option<u64>) -> Result<Answer, LookupError> {
    let addresses = hosts.iter().map(|host| address(*host)).collect();
    Ok(Answer { addresses, ttl: ttl.map(secs) })
}

fn cache_after(result: Result<Answer, LookupError>) -> DnsCache {
    let mut cache = DnsCache::new(DnsSettings::default(), [question()]);
    assert_eq!(cache.state(&question(), secs(0), None), Lookup::Due);
    cache.asked(&question(), secs(0));
    assert_eq!(cache.state(&question(), secs(0), None), Lookup::UnderWay);
    cache.store(&question(), result, secs(0));
    cache
}

/// When the question is due again, in milliseconds, to the millisecond.
fn due_after(cache: &DnsCache, hurry: Option<Duration>) -> u64 {
    (0..=400_000).find(|at| cache.state(&question(), ms(*at), hurry) == Lookup::Due).unwrap()
}

/// CORE-120: answers, failures and names that do not exist are each kept for a time of their own.
#[test]
fn answers_hold_for_their_time() {
    let failed = || Err(LookupError::Failed { why: "SERVFAIL".into() });
    let cases = [
        ("the time to live", answer(&[1], Some(60)), None, 60_000),
        ("thirty seconds if there is none", answer(&[1], None), None, 30_000),
        ("never less than five", answer(&[1], Some(0)), None, 5_000),
        ("never more than five minutes", answer(&[1], Some(86_400)), None, 300_000),
        ("no such name: thirty", Err(LookupError::NoSuchName), None, 30_000),
        ("an empty answer is no such name", answer(&[], Some(60)), None, 30_000),
        ("a time-out: one", Err(LookupError::TimedOut), None, 1_000),
        ("a failing server: one", failed(), None, 1_000),
        ("alone, five at most", answer(&[1], Some(60)), Some(ms(500)), 5_000),
        (
            "alone, no refusal outlasts the backoff",
            Err(LookupError::NoSuchName),
            Some(ms(500)),
            500,
        ),
        ("alone, late in the backoff", Err(LookupError::NoSuchName), Some(secs(15)), 15_000),
    ];
    for (what, result, hurry, expected) in cases {
        assert_eq!(due_after(&cache_after(result), hurry), expected, "{what}");
    }
}

/// Waits after time-outs grow from one second to five, and a good answer ends that.
#[test]
fn failing_servers_are_asked_ever_less_often() {
    let mut cache = cache_after(Err(LookupError::TimedOut));
    for expected in [2, 4, 5, 5] {
        cache.store(&question(), Err(LookupError::TimedOut), secs(0));
        assert_eq!(due_after(&cache, None), expected * 1000);
    }
    cache.store(&question(), answer(&[1], None), secs(0));
    cache.store(&question(), Err(LookupError::TimedOut), secs(0));
    assert_eq!(due_after(&cache, None), 1000);
}

/// While a resolver fails, the last good answer is used.
#[test]
fn the_last_good_answer_survives_failures() {
    let mut cache = cache_after(answer(&[3, 1, 3], None));
    assert_eq!(cache.addresses(&question()), [address(1), address(3)]);
    for error in [LookupError::NoSuchName, LookupError::TimedOut] {
        cache.store(&question(), Err(error), secs(100));
        assert_eq!(cache.addresses(&question()), [address(1), address(3)]);
    }
    cache.store(&question(), answer(&[7], None), secs(200));
    assert_eq!(cache.addresses(&question()), [address(7)]);
}

/// R10: a hostile answer does not fill the memory, and only configured names are kept.
#[test]
fn the_cache_is_bounded() {
    let many = (0..10_000u32).map(|n| SocketAddr::from((n.to_be_bytes(), 1))).collect();
    let cache = cache_after(Ok(Answer { addresses: many, ttl: None }));
    assert_eq!(cache.addresses(&question()).len(), 256);
    let mut cache = cache;
    let other = Question::Srv { name: "_x._udp.example.org".into() };
    cache.store(&other, answer(&[1], None), secs(0));
    assert!(cache.addresses(&other).is_empty());
}

/// GATE-115, CORE-119
#[test]
fn seeds_and_names_are_read() {
    let seed = |text| Seed::parse(text, 9000);
    assert_eq!(seed("10.0.0.1"), Ok(Seed::Address(address(1))));
    assert_eq!(seed(" 10.0.0.1:9000 "), Ok(Seed::Address(address(1))));
    assert_eq!(seed("[::1]:7"), Ok(Seed::Address("[::1]:7".parse().unwrap())));
    assert_eq!(seed("::1"), Ok(Seed::Address("[::1]:9000".parse().unwrap())));
    assert_eq!(seed("[::1]"), Ok(Seed::Address("[::1]:9000".parse().unwrap())));
    assert_eq!(
        seed("Node-1.example.org."),
        Ok(Seed::Host { host: "node-1.example.org".into(), port: 9000 })
    );
    assert_eq!(seed("node:17"), Ok(Seed::Host { host: "node".into(), port: 17 }));
    for bad in [
        "",
        ":9",
        "a:0",
        "a:99999",
        "a b",
        "a..b",
        "10.0.0",
        "10.0.0.400",
        "http://x",
        "10.0.0.1:0",
    ] {
        assert!(seed(bad).is_err(), "{bad}");
    }
    let name = |text| DnsName::parse(text, 9000).map(|name| name.0);
    assert_eq!(name("nodes.example.org"), Ok(question()));
    let srv = Question::Srv { name: "_volley._udp.example.org".into() };
    assert_eq!(name("_volley._udp.example.org"), Ok(srv));
    assert!(name("_volley._udp.example.org:9").is_err());
    assert!(name("10.0.0.1").unwrap_err().to_string().contains("put it among the seeds"));
    assert!(name(&format!("{}.org", "x".repeat(64))).is_err());
}

/// GATE-114, CORE-121: one address once, ours never, the most promising first.
#[test]
fn candidates_have_no_doubles_and_not_ourselves() {
    let mut candidates = Candidates::new([address(1)], 3);
    let (new, left_out) = candidates.replace([
        (Source::Dns, address(2)),
        (Source::Dns, address(1)),
        (Source::Seed, address(3)),
        (Source::Seed, address(2)),
        (Source::Remembered, address(4)),
        (Source::Dns, address(5)),
    ]);
    assert_eq!((new, left_out), (vec![address(2), address(3), address(4)], 1));
    let due = candidates.due(&BTreeSet::new(), None, secs(0), &mut SplitMix64::new(1));
    assert_eq!(due[0], address(4));
    assert_eq!(due.len(), 3);
    // Known ones are not new, vanished ones are gone.
    let (new, _) = candidates.replace([(Source::Dns, address(2)), (Source::Dns, address(6))]);
    assert_eq!(new, [address(6)]);
    assert!(!candidates.contains(address(3)));
}

/// CORE-121: a node is known by its id; an address by who answers there last.
#[test]
fn a_node_that_moves_is_the_same_node() {
    let mut candidates = Candidates::new([], 8);
    candidates.replace([1, 2].map(|host| (Source::Dns, address(host))));
    assert_eq!(candidates.found(NodeId(7), address(1)), None);
    assert_eq!(candidates.found(NodeId(7), address(1)), None);
    let moved = candidates.found(NodeId(7), address(2)).unwrap();
    assert_eq!(moved.from, address(1));
    assert_eq!(candidates.address_of(NodeId(7)), Some(address(2)));
    // Another node takes the address over.
    assert_eq!(candidates.found(NodeId(8), address(2)), None);
    assert_eq!(candidates.address_of(NodeId(7)), None);
    // A member's address is left in peace; it is probed again once the node is no member.
    let mut random = SplitMix64::new(1);
    let due = candidates.due(&[NodeId(8)].into(), None, secs(0), &mut random);
    assert_eq!(due, [address(1)]);
    assert_eq!(candidates.due(&BTreeSet::new(), None, secs(0), &mut random).len(), 2);
}

/// An address at which we answered ourselves may be another's later.
#[test]
fn our_own_address_is_not_ours_for_ever() {
    let mut candidates = Candidates::new([], 8);
    candidates.replace([(Source::Seed, address(1))]);
    candidates.is_ours(address(1), secs(0));
    let due = |at| candidates.due(&BTreeSet::new(), None, at, &mut SplitMix64::new(1)).len();
    assert_eq!((due(secs(299)), due(secs(300))), (0, 1));
}

/// CORE-134, GATE-123: 0.5, 1, 2, 4, 8, 15, 15 s, plus up to a quarter.
#[test]
fn waits_double_up_to_fifteen_seconds() {
    let backoff = Backoff::default();
    let bases: Vec<u64> =
        (1..=7).map(|n| u64::try_from(backoff.base(n).as_millis()).unwrap()).collect();
    assert_eq!(bases, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    assert_eq!(backoff.base(u32::MAX), secs(15));
}

proptest! {
    /// CORE-134
    #[test]
    fn jitter_adds_at_most_a_quarter(failures in 1u32..1000, seed: u64) {
        let backoff = Backoff::default();
        let wait = backoff.wait(failures, &mut SplitMix64::new(seed));
        let base = backoff.base(failures);
        prop_assert!(wait >= base && wait <= base + base / 4);
    }

    #[test]
    fn no_text_breaks_the_parsers(text in "\\PC{0,40}", port in 1u16..) {
        if let Ok(Seed::Host { host, .. }) = Seed::parse(&text, port) {
            prop_assert!(!host.is_empty() && host.len() <= 253);
        }
        let _ = DnsName::parse(&text, port);
    }
}
