//! The hybrid logical clock: the worked example, skewed exchanges, a bad clock, restarts.

use fence::invariant::stamps_rise;
use fence::{ClockSettings, Hlc, HybridClock, NodeId, Receipt, Tick};
use proptest::prelude::*;

const A: NodeId = NodeId(0xa);
const B: NodeId = NodeId(0xb);

/// A node's clock with the durable part that its owner keeps.
struct Node {
    id: NodeId,
    clock: HybridClock,
    durable: u64,
}

impl Node {
    fn new(id: NodeId) -> Self {
        Self { id, clock: HybridClock::start(id, 0, ClockSettings::default()), durable: 0 }
    }

    fn reserve(&mut self, until: u64) {
        assert!(until > self.durable, "a reservation that allows nothing");
        self.durable = until;
        self.clock.reserved(until);
    }

    fn tick(&mut self, now_ms: u64) -> Hlc {
        match self.clock.tick(now_ms) {
            Tick::Stamp(stamp) => stamp,
            Tick::NeedsReservation(until) => {
                self.reserve(until);
                let Tick::Stamp(stamp) = self.clock.tick(now_ms) else { panic!("asked twice") };
                stamp
            }
        }
    }

    /// The stamp of the receiving, and whether the sender's was taken in.
    fn receive(&mut self, stamp: Hlc, now_ms: u64) -> (Hlc, bool) {
        match self.clock.receive(stamp, now_ms) {
            Receipt::Stamp(stamp) => (stamp, true),
            Receipt::NeedsReservation(until) => {
                self.reserve(until);
                (self.tick(now_ms), true)
            }
            Receipt::TooFarAhead { sender, .. } => {
                assert_eq!(sender, stamp.node);
                (self.tick(now_ms), false)
            }
        }
    }

    /// Everything but the durable part is lost.
    fn restart(&mut self) {
        self.clock = HybridClock::start(self.id, self.durable, ClockSettings::default());
    }
}

fn stamp(wall_ms: u64, logical: u32, node: NodeId) -> Hlc {
    Hlc { wall_ms, logical, node }
}

/// LEDG-36, LEDG-37, LEDG-40: the worked example, value by value.
#[test]
fn the_worked_example() {
    let (mut a, mut b) = (Node::new(A), Node::new(B));
    let sent = a.tick(100);
    assert_eq!(sent, stamp(100, 0, A));
    let (received, _) = b.receive(sent, 95);
    assert_eq!(received, stamp(100, 1, B));
    assert_eq!(a.receive(received, 100).0, stamp(100, 2, A));
    assert_eq!(a.tick(101), stamp(101, 0, A));
}

/// LEDG-37: every branch of the receive rule.
#[test]
fn the_receive_rule_by_cases() {
    // (own clock, received, now, expected)
    for ((wall, logical), (from_wall, from_logical), now, expected) in [
        ((100, 3), (100, 7), 50, (100, 8)),
        ((100, 7), (100, 3), 100, (100, 8)),
        ((100, 3), (90, 9), 95, (100, 4)),
        ((90, 9), (100, 3), 95, (100, 4)),
        ((90, 9), (100, 3), 100, (100, 4)),
        ((90, 9), (100, 3), 101, (101, 0)),
    ] {
        let mut node = Node::new(A);
        node.clock.never_below(stamp(wall, logical, A));
        let (got, _) = node.receive(stamp(from_wall, from_logical, B), now);
        assert_eq!((got.wall_ms, got.logical), expected);
        assert_eq!(got.node, A, "the node stays the own one");
    }
}

/// LEDG-38: ordered by wall time, count, node.
#[test]
fn stamps_are_ordered_by_wall_time_then_count_then_node() {
    assert!(stamp(1, 9, B) < stamp(2, 0, A));
    assert!(stamp(2, 0, B) < stamp(2, 1, A));
    assert!(stamp(2, 1, A) < stamp(2, 1, B));
}

/// LEDG-41: a clock one hour ahead moves nobody beyond the bound; it is counted and the sender is
/// named.
#[test]
fn a_clock_one_hour_ahead_moves_nobody() {
    let (mut good, mut bad) = (Node::new(A), Node::new(B));
    for now in 1_000_000..1_000_200 {
        let from_bad = bad.tick(now + 3_600_000);
        let Receipt::TooFarAhead { sender, ahead_ms } = good.clock.receive(from_bad, now) else {
            panic!("merged")
        };
        assert_eq!((sender, ahead_ms), (B, 3_600_000));
        let own = good.tick(now);
        assert_eq!(own.wall_ms, now);
        bad.receive(own, now + 3_600_000);
    }
    assert_eq!(good.clock.drift_refused(), 200);
    assert_eq!(bad.clock.drift_refused(), 0);
    let edge = stamp(2_000_500, 0, B);
    assert_eq!(good.receive(edge, 2_000_000), (stamp(2_000_500, 1, A), true), "at the bound");
    assert!(!good.receive(stamp(2_000_501, 0, B), 2_000_000).1, "one beyond");
}

/// LEDG-42: no stamp is issued beyond what is durable, and asking changes nothing.
#[test]
fn no_stamp_reaches_the_reservation() {
    let mut clock = HybridClock::start(A, 0, ClockSettings::default());
    assert_eq!(clock.tick(5_000), Tick::NeedsReservation(8_000));
    assert_eq!(clock.tick(5_000), Tick::NeedsReservation(8_000));
    clock.reserved(8_000);
    assert_eq!(clock.tick(5_000), Tick::Stamp(stamp(5_000, 0, A)));
    assert_eq!(clock.reservation_due(6_499), None);
    assert_eq!(clock.reservation_due(6_500), Some(9_500), "half is used");
    assert_eq!(clock.tick(7_999), Tick::Stamp(stamp(7_999, 0, A)));
    assert_eq!(clock.tick(8_000), Tick::NeedsReservation(11_000));
    // The received stamp is taken in although none can be issued yet, so cause and effect are kept.
    assert_eq!(clock.receive(stamp(8_200, 4, B), 8_000), Receipt::NeedsReservation(11_200));
    clock.reserved(11_200);
    assert_eq!(clock.tick(8_000), Tick::Stamp(stamp(8_200, 5, A)));
}

/// LEDG-42: a clock stepped back across a restart neither repeats nor falls.
#[test]
fn a_restart_with_the_clock_set_back_never_repeats() {
    let mut node = Node::new(A);
    let mut stamps = vec![node.tick(1_000_000), node.tick(1_000_000), node.tick(1_001_000)];
    node.restart();
    assert!(node.clock.lead_ms(1_001_500) <= ClockSettings::default().reserve_ms);
    stamps.push(node.tick(400_000));
    stamps.push(node.tick(400_001));
    node.restart();
    stamps.push(node.tick(0));
    assert_eq!(stamps_rise(&stamps), Ok(()));
    assert!(stamps.iter().all(|stamp| stamp.node == A));
}

/// A count that is full carries into the wall time; nothing wraps or panics at the end of time.
#[test]
fn a_full_count_carries() {
    let mut node = Node::new(A);
    let full = stamp(100, u32::MAX, B);
    assert_eq!(node.receive(full, 100), (stamp(101, 0, A), true));
    let mut clock = HybridClock::start(A, u64::MAX, ClockSettings::default());
    assert_eq!(clock.tick(u64::MAX), Tick::NeedsReservation(u64::MAX));
    clock.never_below(stamp(u64::MAX, u32::MAX, A));
    assert_eq!(clock.tick(0), Tick::NeedsReservation(u64::MAX));
}

/// What may happen among three nodes.
#[derive(Clone, Debug)]
enum Event {
    Local { node: usize },
    Send { from: usize, to: usize, pick: usize },
    Skew { node: usize, to_ms: u64 },
    Restart { node: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let node = 0usize..3;
    prop::collection::vec(
        prop_oneof![
            4 => node.clone().prop_map(|node| Event::Local { node }),
            8 => (node.clone(), node.clone(), 0usize..64)
                .prop_map(|(from, to, pick)| Event::Send { from, to, pick }),
            2 => (node.clone(), 0u64..20_000).prop_map(|(node, to_ms)| Event::Skew { node, to_ms }),
            1 => node.prop_map(|node| Event::Restart { node }),
        ],
        1..200,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// LEDG-39, LEDG-41, LEDG-42, LEDG-43: wall clocks jump, nodes restart, messages arrive late
    /// and twice. Stamps of one node rise; a receipt is above what it received, unless that was
    /// beyond the bound; and the wall time of a stamp is never beyond what some wall clock has
    /// shown, plus what restarts have reserved and counts carried.
    #[test]
    fn causes_come_before_effects(events in events(), beyond in any::<bool>()) {
        let mut nodes: Vec<Node> = (0..3).map(|id| Node::new(NodeId(id))).collect();
        // Either all skews are within the drift bound, or anything goes.
        let spread = if beyond { 20_000 } else { 250 };
        let mut skew_ms = [0u64; 3];
        let mut issued: [Vec<Hlc>; 3] = Default::default();
        let mut restarts = 0u64;
        for (step, event) in events.into_iter().enumerate() {
            let time = 100_000 + step as u64;
            match event {
                Event::Local { node } => {
                    let stamp = nodes[node].tick(time + skew_ms[node]);
                    issued[node].push(stamp);
                }
                Event::Send { from, to, pick } => {
                    let Some(index) = issued[from].len().checked_sub(1 + pick % 4) else { continue };
                    let sent = issued[from][index];
                    let now = time + skew_ms[to];
                    let (got, merged) = nodes[to].receive(sent, now);
                    prop_assert_eq!(merged, sent.wall_ms <= now + 500);
                    if merged {
                        prop_assert_eq!(stamps_rise(&[sent, got]), Ok(()));
                    }
                    if !beyond && restarts == 0 {
                        prop_assert!(merged, "clocks within the bound always merge");
                    }
                    issued[to].push(got);
                }
                Event::Skew { node, to_ms } => skew_ms[node] = to_ms % spread,
                Event::Restart { node } => {
                    nodes[node].restart();
                    restarts += 1;
                }
            }
            for stamps in &issued {
                let last = stamps.last().map_or(0, |stamp| stamp.wall_ms);
                prop_assert!(last <= time + spread + restarts * 3_000);
            }
        }
        for stamps in &issued {
            prop_assert_eq!(stamps_rise(stamps), Ok(()));
        }
    }
}
