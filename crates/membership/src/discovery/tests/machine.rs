//! One machine, driven by hand: the rows of the scenario tables.

use fence::GroupId;
use proptest::prelude::*;

use super::super::*;
use super::*;

struct Bench {
    machine: Bootstrap,
    now: Duration,
    /// Probes under way.
    probes: Vec<(ProbeId, SocketAddr)>,
    joins: Vec<Hello>,
    lookups: Vec<Question>,
    notices: Vec<Notice>,
    /// When each probe began.
    probed: Vec<(Duration, SocketAddr)>,
    most_at_once: usize,
}

impl Bench {
    fn new(settings: Settings, seed: u64) -> Self {
        let machine = Bootstrap::new(me(1, 1), settings, seed);
        let mut bench = Self {
            machine,
            now: secs(0),
            probes: vec![],
            joins: vec![],
            lookups: vec![],
            notices: vec![],
            probed: vec![],
            most_at_once: 0,
        };
        bench.say(Event::Start);
        bench
    }

    fn say(&mut self, event: Event) {
        for effect in self.machine.step(event, self.now) {
            match effect {
                Effect::Resolve(question) => self.lookups.push(question),
                Effect::Probe { probe, address } => {
                    self.probes.push((probe, address));
                    self.probed.push((self.now, address));
                    self.most_at_once = self.most_at_once.max(self.probes.len());
                }
                Effect::Cancel(probe) => self.probes.retain(|(id, _)| *id != probe),
                Effect::Join(hello) => self.joins.push(*hello),
                Effect::Notice(notice) => self.notices.push(notice),
            }
        }
        assert_eq!(self.probes.len(), self.machine.probes_in_flight());
    }

    /// Lets time pass, tick by tick as the machine asks for it.
    fn until(&mut self, at: Duration) {
        let mut ticks = 0;
        while let Some(wake) = self.machine.next_wake().filter(|wake| *wake <= at) {
            assert!(wake >= self.now || ticks == 0, "the machine asks for the past");
            self.now = wake.max(self.now);
            self.say(Event::Tick);
            ticks += 1;
            assert!(ticks < 100_000, "the machine spins");
        }
        self.now = at;
    }

    fn answer(&mut self, host: u8, hello: Hello) {
        let at = self.probes.iter().position(|(_, to)| *to == address(host)).expect("is probed");
        let (probe, _) = self.probes.remove(at);
        // Removed from the bench's list first: the machine does the same.
        for effect in self.machine.step(Event::Answered { probe, hello }, self.now) {
            match effect {
                Effect::Cancel(probe) => self.probes.retain(|(id, _)| *id != probe),
                Effect::Join(hello) => self.joins.push(*hello),
                Effect::Notice(notice) => self.notices.push(notice),
                Effect::Probe { probe, address } => self.probes.push((probe, address)),
                Effect::Resolve(question) => self.lookups.push(question),
            }
        }
    }

    fn joined_via(&mut self, host: u8, node: u128) {
        self.answer(host, hello(node, address(host)));
        self.say(Event::JoinAcknowledged { node: NodeId(node) });
    }
}

/// GATE-113: the first answer wins, the others are cancelled, JOINED comes with the
/// acknowledgement.
#[test]
fn the_first_answer_is_joined_and_the_rest_cancelled() {
    let mut bench = Bench::new(with_seeds([2, 3, 4]), 1);
    assert_eq!(bench.machine.phase(), Phase::Probing);
    bench.until(ms(100));
    assert_eq!(bench.probes.len(), 3);
    bench.answer(2, hello(2, address(2)));
    assert!(bench.probes.is_empty());
    assert_eq!(bench.joins.len(), 1);
    assert_eq!(bench.machine.phase(), Phase::Probing);
    bench.say(Event::JoinAcknowledged { node: NodeId(2) });
    assert_eq!(bench.machine.phase(), Phase::Joined);
    assert_eq!(bench.notices, [Notice::Joined { node: NodeId(2), after: ms(100) }]);
}

/// All time out together at 500 ms, then waits of 0.5, 1, 2, 4, 8, 15, 15 s plus a quarter at most.
#[test]
fn without_an_answer_the_waits_grow() {
    let mut bench = Bench::new(with_seeds([2, 3, 4]), 7);
    bench.until(ms(601));
    assert!(bench.probes.is_empty(), "jitter and one deadline, not one deadline each");
    assert_eq!(bench.machine.phase(), Phase::Backoff);
    bench.until(secs(70));
    let mut rounds: Vec<Duration> = Vec::new();
    for (at, _) in &bench.probed {
        if rounds.last().is_none_or(|last| *at > *last + ms(100)) {
            rounds.push(*at);
        }
    }
    assert_eq!(bench.probed.len() % 3, 0);
    // From one round's first probe to the next: deadline, jitter of both, and the wait.
    for (pair, base) in rounds.windows(2).zip([500, 1000, 2000, 4000, 8000, 15_000, 15_000]) {
        let gap = pair[1] - pair[0];
        let (least, most) = (ms(500 + base - 100), ms(500 + base + base / 4 + 200));
        assert!(gap >= least && gap <= most, "{gap:?} not in {least:?}..{most:?}");
    }
    assert!(rounds.len() >= 7, "{rounds:?}");
    // One comes back, and is found.
    let at = bench.now;
    while bench.probes.is_empty() {
        let wake = bench.machine.next_wake().unwrap();
        bench.until(wake);
    }
    assert!(bench.now - at <= ms(18_750 + 600));
    let (_, to) = bench.probes[0];
    let host = to.ip().to_string().rsplit('.').next().unwrap().parse().unwrap();
    bench.joined_via(host, 9);
    assert_eq!(bench.machine.phase(), Phase::Joined);
}

/// A join that fails goes to the next one, then into the backoff.
#[test]
fn a_failed_join_goes_on_to_the_next() {
    let mut bench = Bench::new(with_seeds([2, 3]), 1);
    bench.until(ms(100));
    bench.answer(2, hello(2, address(2)));
    bench.until(ms(150));
    bench.say(Event::JoinFailed { node: NodeId(2), why: "full".into() });
    bench.until(ms(260));
    assert_eq!(bench.probes.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [address(3)]);
    bench.answer(3, hello(3, address(3)));
    // No acknowledgement: the deadline of two seconds ends it.
    bench.until(ms(2300));
    assert_eq!(bench.machine.phase(), Phase::Backoff);
    assert_eq!(bench.machine.counts().joins_failed, 2);
    // Late words change nothing.
    bench.say(Event::JoinAcknowledged { node: NodeId(3) });
    assert_eq!(bench.machine.phase(), Phase::Backoff);
}

/// After a failed join the round goes on where it was, with those that still waited for their turn.
#[test]
fn a_failed_join_forgets_nobody() {
    let mut bench = Bench::new(with_seeds(2..22), 1);
    bench.until(ms(100));
    assert_eq!(bench.probes.len(), 10);
    let (_, to) = bench.probes[4];
    let host = to.ip().to_string().rsplit('.').next().unwrap().parse().unwrap();
    bench.answer(host, hello(9, to));
    bench.say(Event::JoinFailed { node: NodeId(9), why: "full".into() });
    while bench.machine.counts().rounds_failed == 0 {
        let wake = bench.machine.next_wake().unwrap();
        bench.until(wake);
    }
    let mut tried: Vec<_> = bench.probed.iter().map(|(_, to)| *to).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 20, "all of them, before the first wait");
}

/// Who was passed over at the first join is looked at a second later, not half a minute.
#[test]
fn those_passed_over_are_looked_at_soon() {
    let mut bench = Bench::new(with_seeds([2, 3]), 1);
    bench.until(ms(100));
    bench.joined_via(2, 2);
    assert!(!bench.machine.looked_around());
    bench.probed.clear();
    bench.until(ms(100 + 1250 + 100));
    assert_eq!(bench.probed.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [address(3)]);
    bench.until(ms(2000));
    assert!(bench.machine.looked_around(), "now everybody was tried");
}

/// CORE-119, GATE-117: seeds do not wait for DNS, and its answer joins in when it comes.
#[test]
fn seeds_and_dns_go_in_parallel() {
    let mut settings = with_seeds([2]);
    settings.names = vec![DnsName::parse("nodes.example.org", 9000).unwrap()];
    let mut bench = Bench::new(settings, 1);
    assert_eq!(bench.lookups.len(), 1);
    bench.until(ms(100));
    assert_eq!(bench.probed.len(), 1);
    bench.until(ms(700));
    assert_eq!(bench.machine.phase(), Phase::Backoff);
    // The answer comes while the machine waits: probed at once.
    let question = bench.lookups[0].clone();
    let addresses = vec![address(3), address(1), address(2)];
    bench.say(Event::Resolved { question, result: Ok(Answer { addresses, ttl: None }) });
    bench.until(ms(800));
    assert_eq!(bench.probed.last().unwrap().1, address(3));
    assert!(bench.probed.iter().all(|(_, to)| *to != address(1)), "ourselves");
    bench.joined_via(3, 3);
    assert_eq!(bench.machine.phase(), Phase::Joined);
}

/// A failed name is not asked for again within thirty seconds once there is a peer; the seeds did
/// it.
#[test]
fn a_failed_name_is_left_alone() {
    let mut settings = with_seeds([2]);
    settings.names = vec![DnsName::parse("nodes.example.org", 9000).unwrap()];
    let mut bench = Bench::new(settings, 1);
    let question = bench.lookups.pop().unwrap();
    bench.say(Event::Resolved { question, result: Err(LookupError::NoSuchName) });
    bench.until(ms(100));
    bench.joined_via(2, 2);
    bench.until(ms(29_900));
    assert!(bench.lookups.is_empty());
    assert!(bench.machine.counts().negative_cache_hits > 0);
    bench.until(secs(80));
    assert!(!bench.lookups.is_empty());
}

/// R10: a resolver that never answers counts as a time-out after two seconds, and does not stop the
/// rounds.
#[test]
fn a_silent_resolver_times_out() {
    let mut settings = Settings::new(Role::Manager);
    settings.names = vec![DnsName::parse("_volley._udp.example.org", 9000).unwrap()];
    let mut bench = Bench::new(settings, 1);
    bench.until(ms(1999));
    assert_eq!(bench.machine.phase(), Phase::Resolving);
    assert!(!bench.machine.looked_around());
    bench.until(ms(2000));
    assert_eq!(bench.machine.phase(), Phase::Backoff);
    assert!(bench.machine.looked_around());
    assert_eq!(bench.machine.counts().lookups_timed_out, 1);
    bench.until(secs(20));
    assert!(bench.lookups.len() >= 3, "asked again: {}", bench.lookups.len());
}

/// The first node of all, with only itself among its seeds, or with nothing at all: it serves.
#[test]
fn a_lone_first_node_starts() {
    let mut bench = Bench::new(with_seeds([1]), 1);
    bench.until(secs(60));
    assert_eq!(bench.machine.phase(), Phase::Backoff);
    assert!(bench.probed.is_empty(), "it never probes itself");
    assert!(bench.machine.looked_around());
    // Somebody finds it.
    bench.say(Event::MemberUp { node: NodeId(2), address: address(2) });
    assert_eq!(bench.machine.phase(), Phase::Joined);

    let bench = Bench::new(Settings::new(Role::Manager), 1);
    assert_eq!(bench.machine.phase(), Phase::Unconfigured);
    assert!(bench.machine.looked_around());
}

/// Our own address under a name that we do not know as ours.
#[test]
fn an_answer_from_ourselves_is_no_peer() {
    let mut bench = Bench::new(with_seeds([2, 3]), 1);
    bench.until(ms(100));
    bench.answer(2, hello(1, address(2)));
    assert!(bench.joins.is_empty());
    bench.until(secs(30));
    assert_eq!(bench.probed.iter().filter(|(_, to)| *to == address(2)).count(), 1);
    assert!(bench.probed.iter().filter(|(_, to)| *to == address(3)).count() > 3);
}

/// CORE-122: an address of another cluster, environment, role or group is refused by name, and the
/// next one is taken.
#[test]
fn strangers_are_refused_and_the_next_is_taken() {
    let group = |cluster| Some(GroupId { cluster, generation: 1 });
    let mut bench = Bench::new(with_seeds([2, 3, 4, 5, 6]), 1);
    bench.machine.set_group(group(1).unwrap());
    bench.until(ms(100));
    let mut other = hello(2, address(2));
    other.identity.cluster = "staging".into();
    bench.answer(2, other);
    let mut other = hello(3, address(3));
    other.identity.environment = "test".into();
    bench.answer(3, other);
    let mut other = hello(4, address(4));
    other.identity.role = Role::Worker;
    bench.answer(4, other);
    let mut other = hello(5, address(5));
    other.group = group(2);
    bench.answer(5, other);
    assert!(bench.joins.is_empty());
    let kinds: Vec<_> = bench
        .notices
        .iter()
        .map(|notice| match notice {
            Notice::Refused { refusal, .. } => refusal.kind(),
            Notice::OtherGroup { .. } => "group",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["cluster", "environment", "receiver", "group"]);
    let mut friend = hello(6, address(6));
    friend.group = group(1);
    bench.answer(6, friend);
    assert_eq!(bench.joins.len(), 1);
}

/// A joined node looks at silent addresses at most once in thirty seconds, leaves members in peace,
/// and merges with a stranger of its own cluster.
#[test]
fn a_joined_node_looks_again_at_a_low_rate() {
    let mut bench = Bench::new(with_seeds([2, 3]), 3);
    bench.until(ms(100));
    bench.joined_via(2, 2);
    bench.probed.clear();
    bench.until(secs(600));
    let times: Vec<_> = bench.probed.iter().map(|(at, _)| *at).collect();
    assert!(bench.probed.iter().all(|(_, to)| *to == address(3)), "members are left in peace");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= secs(30)), "{times:?}");
    assert!(times.len() >= 15, "{}", times.len());
    while bench.probes.is_empty() {
        let wake = bench.machine.next_wake().unwrap();
        bench.until(wake);
    }
    bench.joined_via(3, 3);
    assert_eq!(bench.notices.last(), Some(&Notice::Merged { node: NodeId(3) }));
}

/// CORE-121: the last peer goes and comes back elsewhere; DNS knows, and the id is the same.
#[test]
fn a_pod_that_comes_back_elsewhere_is_found() {
    let mut settings = Settings::new(Role::Manager);
    settings.names = vec![DnsName::parse("nodes.example.org", 9000).unwrap()];
    let mut bench = Bench::new(settings, 1);
    let say = |bench: &mut Bench, host| {
        let question = bench.lookups.pop().unwrap();
        let result = Ok(Answer { addresses: vec![address(host)], ttl: Some(secs(5)) });
        bench.say(Event::Resolved { question, result });
    };
    say(&mut bench, 2);
    bench.until(ms(100));
    bench.joined_via(2, 2);
    bench.until(secs(20));
    bench.lookups.clear();
    bench.say(Event::MemberGone { node: NodeId(2) });
    assert_eq!(bench.notices.last(), Some(&Notice::AloneAgain));
    say(&mut bench, 3);
    bench.until(ms(20_100));
    bench.joined_via(3, 2);
    let moved = Notice::Moved { node: NodeId(2), from: address(2), to: address(3) };
    assert!(bench.notices.contains(&moved), "{:?}", bench.notices);
    assert_eq!(bench.machine.phase(), Phase::Joined);
}

/// Only where a limit is set does the search end, and then for good.
#[test]
fn giving_up_is_final() {
    let mut settings = with_seeds([2]);
    settings.give_up_after = Some(secs(10));
    let mut bench = Bench::new(settings, 1);
    bench.until(secs(60));
    assert_eq!(bench.machine.phase(), Phase::Failed);
    assert_eq!(bench.notices.last(), Some(&Notice::GaveUp { after: secs(10) }));
    assert_eq!(bench.machine.next_wake(), None);
    bench.say(Event::MemberUp { node: NodeId(2), address: address(2) });
    assert_eq!(bench.machine.phase(), Phase::Failed);
}

/// CORE-133: forty seeds, never more than ten probes at once, and each is tried in each round.
#[test]
fn never_more_than_ten_at_once() {
    let mut bench = Bench::new(with_seeds(2..42), 5);
    bench.until(ms(2300));
    assert_eq!(bench.most_at_once, 10);
    assert_eq!(bench.probed.len(), 40);
    let mut tried: Vec<_> = bench.probed.iter().map(|(_, to)| *to).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 40);
}

/// One random thing that can happen.
#[derive(Clone, Debug)]
enum Happening {
    Wait(u64),
    Answer { probe: u64, node: u128 },
    Fail { probe: u64 },
    Acknowledge(u128),
    JoinFail(u128),
    Up(u128),
    Gone(u128),
    Resolve(Vec<u8>),
    NoName,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0u64..40_000).prop_map(Happening::Wait),
        3 => (0u64..40, 1u128..6).prop_map(|(probe, node)| Happening::Answer { probe, node }),
        1 => (0u64..40).prop_map(|probe| Happening::Fail { probe }),
        2 => (1u128..6).prop_map(Happening::Acknowledge),
        1 => (1u128..6).prop_map(Happening::JoinFail),
        1 => (1u128..6).prop_map(Happening::Up),
        1 => (1u128..6).prop_map(Happening::Gone),
        1 => prop::collection::vec(1u8..40, 0..30).prop_map(Happening::Resolve),
        1 => Just(Happening::NoName),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// CORE-133, R10: whatever happens, in whatever order, late or twice: at most ten probes, none
    /// to ourselves, no spinning, and an unjoined machine always has a next step.
    #[test]
    fn any_order_of_events_keeps_the_bounds(
        seed: u64, seeds in 0u8..20, events in prop::collection::vec(happening(), 0..60)
    ) {
        let mut settings = with_seeds(1..1 + seeds);
        settings.names = vec![DnsName::parse("nodes.example.org", 9000).unwrap()];
        let mut bench = Bench::new(settings, seed);
        let question = bench.lookups[0].clone();
        for event in events {
            match event {
                Happening::Wait(millis) => bench.until(bench.now + ms(millis)),
                Happening::Answer { probe, node } => {
                    bench.probes.retain(|(id, _)| *id != ProbeId(probe));
                    let hello = hello(node, address(u8::try_from(node).unwrap()));
                    bench.say(Event::Answered { probe: ProbeId(probe), hello });
                }
                Happening::Fail { probe } => {
                    bench.probes.retain(|(id, _)| *id != ProbeId(probe));
                    let why = ProbeFailure::Unreachable { why: "refused".into() };
                    bench.say(Event::ProbeFailed { probe: ProbeId(probe), why });
                }
                Happening::Acknowledge(node) => bench.say(Event::JoinAcknowledged { node: NodeId(node) }),
                Happening::JoinFail(node) => {
                    bench.say(Event::JoinFailed { node: NodeId(node), why: "no".into() });
                }
                Happening::Up(node) => {
                    let address = address(u8::try_from(node).unwrap());
                    bench.say(Event::MemberUp { node: NodeId(node), address });
                }
                Happening::Gone(node) => bench.say(Event::MemberGone { node: NodeId(node) }),
                Happening::Resolve(hosts) => {
                    let addresses = hosts.into_iter().map(address).collect();
                    let result = Ok(Answer { addresses, ttl: None });
                    bench.say(Event::Resolved { question: question.clone(), result });
                }
                Happening::NoName => {
                    let result = Err(LookupError::NoSuchName);
                    bench.say(Event::Resolved { question: question.clone(), result });
                }
            }
            prop_assert!(bench.most_at_once <= 10);
            prop_assert!(bench.probed.iter().all(|(_, to)| *to != address(1)));
            prop_assert!(bench.joins.iter().all(|hello| hello.node() != NodeId(1)));
            prop_assert!(bench.machine.next_wake().is_some());
        }
    }
}
