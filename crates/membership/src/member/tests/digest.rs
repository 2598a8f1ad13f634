//! The comparison before an exchange: it is equal among those who know the same, and never hides
//! what an exchange would repair.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::net::{Net, id, peer, swim};
use super::settings;
use crate::identity::Peer;
use crate::member::{Digest, Event, FullState, Record, Standing, Swim};
use crate::table::State;

fn digest(net: &Net, at: usize) -> Digest {
    net.nodes[&at].digest()
}

/// Two who know the same need not show it to each other; one news more, and they do.
#[test]
fn members_that_know_the_same_have_the_same_digest() {
    let mut net = Net::cluster(5, &settings());
    assert!((1..5).all(|at| digest(&net, at) == digest(&net, 0)));
    assert_eq!(digest(&net, 0).members, 5);
    net.nodes.remove(&4);
    while net.state(0, 4) == Some(State::Confirmed) {
        net.run(Duration::from_millis(10));
    }
    let before = digest(&net, 0);
    while net.state(0, 4) == Some(State::Suspect) {
        net.run(Duration::from_millis(100));
    }
    assert_ne!(digest(&net, 0), before);
    net.run_secs(5);
    assert!((1..4).all(|at| digest(&net, at) == digest(&net, 0)));
}

/// One who came after a death does not hear of it from an exchange, so the dead make no difference;
/// nor does who has met whom, or what their heartbeats say.
#[test]
fn what_an_exchange_does_not_carry_makes_no_difference() {
    let mut net = Net::cluster(4, &settings());
    net.nodes.remove(&3);
    net.run_secs(60);
    assert_eq!(net.state(0, 3), Some(State::Dead));
    net.start(5, swim(peer(5, 1), settings()));
    net.run_secs(30);
    assert_eq!(net.state(5, 3), None);
    assert_eq!(digest(&net, 5), digest(&net, 0));
    net.step(1, Event::Heartbeat(vec![7; 40]));
    net.run_secs(10);
    assert_eq!(net.nodes[&0].table().get(id(1)).unwrap().heartbeat, [7; 40]);
    assert_eq!(digest(&net, 5), digest(&net, 1));
    // A stranger that both have heard of, and only one has met.
    let stranger = record(6, 1, 0, Standing::Alive);
    let told = |from: &Record, members| {
        Event::PushPull(Box::new(FullState { from: from.clone(), members }))
    };
    let one = net.nodes[&1].own_record();
    net.step(0, told(&one, vec![stranger.clone()]));
    assert_ne!(digest(&net, 0), digest(&net, 1));
    net.step(1, told(&stranger, Vec::new()));
    assert_eq!(
        (net.state(0, 6), net.state(1, 6)),
        (Some(State::Unconfirmed), Some(State::Confirmed))
    );
    assert_eq!(digest(&net, 0), digest(&net, 1));
}

/// Programs of different versions compare it, so its value is part of the contract.
#[test]
fn the_digest_of_a_known_table_never_changes() {
    let mut lone = swim(peer(0, 3), settings());
    assert_eq!(lone.digest(), Digest { members: 1, sum: 10_313_975_782_959_999_308 });
    let state = FullState { from: record(1, 2, 5, Standing::Alive), members: Vec::new() };
    lone.step(Event::PushPull(Box::new(state)), Duration::ZERO);
    assert_eq!(lone.digest(), Digest { members: 2, sum: 5_437_892_137_899_054_217 });
}

fn record(index: usize, boot: u64, incarnation: u16, standing: Standing) -> Record {
    Record { peer: peer(index, boot), datacenter: "fra1".into(), incarnation, standing }
}

/// What may have happened to one or both of two members.
#[derive(Clone, Debug)]
enum Happening {
    /// A member has spoken for itself.
    Heard { index: usize, boot: u64, incarnation: u16 },
    /// A third one has told of another.
    Told { index: usize, boot: u64, incarnation: u16, standing: Standing },
    /// Long enough for suspicions to end.
    Silence { seconds: u64 },
}

fn happening() -> impl Strategy<Value = Happening> {
    let whom = (3usize..7, 1u64..3, 0u16..3);
    let standing = prop_oneof![
        3 => Just(Standing::Alive),
        2 => Just(Standing::Suspect),
        1 => Just(Standing::Dead),
        1 => Just(Standing::Left),
    ];
    prop_oneof![
        4 => whom.clone().prop_map(|(index, boot, incarnation)| Happening::Heard { index, boot, incarnation }),
        4 => (whom, standing).prop_map(|((index, boot, incarnation), standing)| {
            Happening::Told { index, boot, incarnation, standing }
        }),
        1 => (1u64..90).prop_map(|seconds| Happening::Silence { seconds }),
    ]
}

fn apply(net: &mut Net, at: usize, happening: &Happening) {
    let state = match happening.clone() {
        Happening::Heard { index, boot, incarnation } => FullState {
            from: record(index, boot, incarnation, Standing::Alive),
            members: Vec::new(),
        },
        Happening::Told { index, boot, incarnation, standing } => FullState {
            from: record(2, 1, 0, Standing::Alive),
            members: vec![record(index, boot, incarnation, standing)],
        },
        Happening::Silence { .. } => return,
    };
    net.step(at, Event::PushPull(Box::new(state)));
}

type Row = (Peer, State, u16, bool);

/// Everything that an exchange may change: the table, and what is decided about suspects.
fn rows(swim: &Swim) -> Vec<Row> {
    let last_chance = |node| swim.suspicions().get(node).is_some_and(|s| s.last_chance);
    let entries = swim.table().iter();
    entries.map(|e| (e.peer, e.state, e.incarnation, last_chance(e.peer.node))).collect()
}

/// Whatever two members have been through: if their digests are equal, then after each has said who
/// it is a full exchange changes nothing at either. So whatever an exchange would repair makes the
/// digests differ.
#[test]
fn equal_digests_leave_nothing_for_an_exchange_to_repair() {
    let (same, different) = (Cell::new(0), Cell::new(0));
    let both = prop_oneof![8 => Just(0b11u8), 1 => Just(0b01), 1 => Just(0b10)];
    let story = prop::collection::vec((both, happening()), 0..14);
    let mut runner =
        TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&story, |story| {
        let mut net = Net::new();
        for index in 0..2 {
            net.start(index, swim(peer(index, 1), settings()));
        }
        net.run_secs(5);
        // The others do not run: nothing but the story is told of them.
        for (whom, happening) in &story {
            if let Happening::Silence { seconds } = happening {
                net.run_secs(*seconds);
            }
            for at in (0..2).filter(|at| whom >> at & 1 == 1) {
                apply(&mut net, at, happening);
            }
        }
        if digest(&net, 0) != digest(&net, 1) {
            different.set(different.get() + 1);
            return Ok(());
        }
        same.set(same.get() + 1);
        let full = [0, 1].map(|at| net.nodes[&at].full_state());
        for (at, other) in [(0, 1), (1, 0)] {
            let from = net.nodes[&other].own_record();
            net.step(at, Event::PushPull(Box::new(FullState { from, members: Vec::new() })));
        }
        let before = [0, 1].map(|at| rows(&net.nodes[&at]));
        net.step(0, Event::PushPull(Box::new(full[1].clone())));
        net.step(1, Event::PushPull(Box::new(full[0].clone())));
        let after = [0, 1].map(|at| rows(&net.nodes[&at]));
        prop_assert_eq!(before, after);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    // Otherwise it would show nothing.
    assert!(same.get() > 50 && different.get() > 50, "{} {}", same.get(), different.get());
}
