//! Scenarios: what a few members make of crashes, cuts, lies and pauses.

mod confirm;
mod digest;
mod net;

use std::time::Duration;

use fence::BootId;

use super::*;
use crate::envelope::{Packet, Refusal};
use crate::settings::Lifeguard;
use crate::table::State;
use net::{Net, address, domain, id, peer, ring, swim};

fn settings() -> Settings {
    Settings::default()
}

/// Members that start together confirm each other and suspect nobody.
#[test]
fn a_cluster_forms_without_a_single_suspicion() {
    let net = Net::cluster(5, &settings());
    for node in net.nodes.values() {
        assert_eq!(node.counters().suspicions_started, 0);
        assert_eq!(node.counters().core_errors, 0);
        assert_eq!(node.refusals().total(), 0, "{:?}", node.refusals());
        assert!(node.table().iter().all(|entry| entry.two_way && entry.rtt.is_some()));
        assert!(node.table().iter().all(|entry| entry.datacenter == "fra1"));
    }
}

/// DET-134: a peer that is known but silent is neither suspected nor declared dead, however long.
#[test]
fn a_silent_peer_stays_unconfirmed_until_it_speaks() {
    let mut net = Net::cluster(3, &settings());
    let state = net.nodes[&0].full_state();
    let mut with_stranger = state.clone();
    with_stranger.members.push(Record {
        peer: peer(5, 1),
        datacenter: String::new(),
        incarnation: 0,
        standing: Standing::Alive,
    });
    net.step(1, Event::PushPull(Box::new(with_stranger)));
    let version = net.version(1);
    net.run_secs(80);
    assert_eq!(net.state(1, 5), Some(State::Unconfirmed));
    assert_eq!(net.steps(1, 5, version), []);
    let warned = |(at, notice): &(usize, Notice)| {
        *at == 1 && matches!(notice, Notice::Unconfirmed { peer, .. } if peer.node == id(5))
    };
    assert!(net.notices.iter().any(warned));
    assert_eq!(net.nodes[&1].counters().suspicions_started, 0);
    // It comes up late, and nobody has to restart.
    net.start(5, swim(peer(5, 1), settings()));
    net.run_secs(20);
    assert_eq!(net.state(1, 5), Some(State::Confirmed));
}

/// LIFE-105: a gossiped manager that never answers is asked three times, dropped, and does not come
/// back.
#[test]
fn a_peer_that_is_never_confirmed_is_dropped_and_not_taken_back() {
    let mut net = Net::cluster(3, &settings());
    let mut state = net.nodes[&0].full_state();
    let (peer, datacenter) = (peer(6, 1), String::new());
    state.members.push(Record { peer, datacenter, incarnation: 0, standing: Standing::Alive });
    net.step(1, Event::PushPull(Box::new(state.clone())));
    net.run_secs(130);
    assert_eq!(net.state(1, 6), None);
    let counters = net.nodes[&1].counters();
    assert_eq!(counters.confirm_attempts[role_index(Role::Manager)], 3);
    assert_eq!(counters.unconfirmed_removed[role_index(Role::Manager)], 1);
    net.step(1, Event::PushPull(Box::new(state)));
    net.run_secs(5);
    assert_eq!(net.state(1, 6), None);
    let dead = net.nodes[&1].table().since(0).unwrap().any(|c| c.to == Some(State::Dead));
    assert!(!dead, "dropped, not dead");
}

/// All managers start again at once and know nobody: those that speak to their earlier lives are
/// told, long before the earlier lives are given up.
#[test]
fn who_speaks_to_an_earlier_life_is_told_of_the_new_one() {
    let mut net = Net::cluster(5, &settings());
    for at in 0..3 {
        net.nodes.remove(&at);
    }
    for at in 0..3 {
        net.start(at, swim(peer(at, 2), settings()));
    }
    net.run_secs(3);
    for at in 0..3 {
        for other in 3..5 {
            let known = net.nodes[&other].table().get(id(at)).unwrap();
            assert_eq!(
                (known.peer.boot, known.state),
                (BootId(2), State::Confirmed),
                "{at} at {other}"
            );
            assert_eq!(net.state(at, other), Some(State::Confirmed), "{other} at {at}");
        }
    }
}

/// DET-77: a crash is a suspicion first and a death then, at every member, once.
#[test]
fn a_crash_is_suspected_first_and_declared_then() {
    let mut net = Net::cluster(5, &settings());
    let versions: Vec<_> = (0..4).map(|at| net.version(at)).collect();
    net.nodes.remove(&4);
    net.run_secs(40);
    for (at, version) in versions.into_iter().enumerate() {
        let steps: Vec<_> = net.steps(at, 4, version).into_iter().map(|(to, _)| to).collect();
        assert_eq!(steps, [Some(State::Suspect), Some(State::Dead)], "{at}");
    }
    let direct: u64 = net.nodes.values().map(|n| n.counters().deaths_direct).sum();
    let gossip: u64 = net.nodes.values().map(|n| n.counters().deaths_gossip).sum();
    assert!(direct >= 1 && direct + gossip == 4, "{direct} {gossip}");
    assert!(net.nodes.values().all(|n| n.health().score() == 0), "a dead peer is no fault of ours");
}

/// P8: whoever started the suspicion dies too; the suspect is still decided.
#[test]
fn the_death_of_the_suspector_leaves_nobody_undecided() {
    let mut net = Net::cluster(6, &settings());
    net.nodes.remove(&5);
    let mut suspector = None;
    for _ in 0..200 {
        net.run(Duration::from_millis(50));
        suspector = net.nodes.iter().find(|(_, n)| {
            n.suspicions().get(id(5)).is_some_and(|s| s.origins.contains(&n.me().node))
        });
        if suspector.is_some() {
            break;
        }
    }
    let index = *suspector.expect("somebody suspects").0;
    net.run(Duration::from_millis(300));
    net.nodes.remove(&index);
    net.run_secs(60);
    for at in net.nodes.keys() {
        assert_eq!(net.state(*at, 5), Some(State::Dead), "{at}");
        assert_eq!(net.state(*at, index), Some(State::Dead), "{at}");
    }
}

/// ARCH-34: a suspect contradicts, and its incarnation rises; nobody declares it dead.
#[test]
fn a_suspect_that_is_alive_refutes() {
    let mut net = Net::cluster(4, &settings());
    let before = net.nodes[&3].incarnation();
    net.passes = Box::new(|from, to| from != 3 && to != 3);
    while net.state(0, 3) == Some(State::Confirmed) {
        net.run(Duration::from_millis(100));
    }
    net.passes = Box::new(|_, _| true);
    net.run_secs(20);
    assert_eq!(net.state(0, 3), Some(State::Confirmed));
    assert!(net.nodes[&3].incarnation() > before);
    assert!(net.nodes.values().all(|n| n.counters().deaths_direct == 0));
}

/// Whoever hears of its own death comes back as a new generation, and never mourns itself.
#[test]
fn a_member_that_hears_of_its_own_death_outlives_it() {
    let mut net = Net::cluster(4, &settings());
    net.passes = Box::new(|from, to| from != 3 && to != 3);
    net.run_secs(60);
    assert_eq!(net.state(0, 3), Some(State::Dead));
    let version = net.version(3);
    net.passes = Box::new(|_, _| true);
    net.run_secs(60);
    assert!(net.nodes[&3].me().generation > 0);
    assert!(net.notices.iter().any(|(at, n)| *at == 3 && matches!(n, Notice::DeathRefuted { .. })));
    assert_eq!(net.steps(3, 3, version), []);
    for at in 0..4 {
        assert_eq!(net.nodes[&at].table().count(State::Confirmed), 3, "{at}");
    }
}

/// Two halves that have buried each other merge again by themselves.
#[test]
fn a_healed_partition_merges() {
    let mut net = Net::cluster(8, &settings());
    net.passes = Box::new(|from, to| (from < 4) == (to < 4));
    net.run_secs(150);
    // With half of all suspect at once each side first doubts itself; without voters it stays at
    // that.
    assert!(net.nodes.values().all(|n| n.table().count(State::Confirmed) == 3));
    net.passes = Box::new(|_, _| true);
    net.run_secs(70);
    for (index, node) in &net.nodes {
        assert_eq!(node.table().count(State::Confirmed), 7, "{index}");
    }
}

/// One that is cut off declares nobody dead; the others declare only it.
#[test]
fn an_isolated_member_doubts_itself() {
    let mut net = Net::cluster(10, &settings());
    net.passes = Box::new(|from, to| from != 9 && to != 9);
    net.run_secs(400);
    let table = net.nodes[&9].table();
    let dead_before_the_hold = table.count(State::Dead);
    assert!(dead_before_the_hold <= 5, "{dead_before_the_hold}");
    assert!(net.notices.iter().any(|(at, n)| *at == 9 && matches!(n, Notice::MassDeath { .. })));
    for at in 0..9 {
        assert_eq!(net.nodes[&at].table().count(State::Dead), 1, "{at}");
        assert_eq!(net.state(at, 9), Some(State::Dead));
    }
}

/// With voters configured the isolated one declares nobody at all, and a real mass death is
/// corroborated.
#[test]
fn a_quorum_of_voters_ends_the_hold() {
    let mut settings = settings();
    settings.voters = (0..3).map(id).collect();
    let mut net = Net::cluster(9, &settings);
    net.passes = Box::new(|from, to| from != 2 && to != 2);
    net.run_secs(200);
    assert_eq!(net.nodes[&2].table().count(State::Dead), 0);
    net.passes = Box::new(|_, _| true);
    net.run_secs(60);
    for index in 3..9 {
        net.nodes.remove(&index);
    }
    net.run_secs(200);
    for at in 0..3 {
        assert_eq!(net.nodes[&at].table().count(State::Dead), 6, "{at}");
    }
    assert!(net.nodes.values().any(|n| n.counters().deaths_held > 0));
}

/// Whoever was away while the others agreed learns it from the next exchange, and does not hold for
/// ever.
#[test]
fn a_hold_ends_with_an_exchange_when_the_others_have_agreed() {
    let mut settings = settings();
    settings.voters = (0..3).map(id).collect();
    let mut net = Net::cluster(9, &settings);
    (3..9).for_each(|index| drop(net.nodes.remove(&index)));
    net.passes = Box::new(|from, to| from != 2 && to != 2);
    net.run_secs(200);
    assert_eq!(net.nodes[&2].table().count(State::Dead), 0);
    assert_eq!(net.state(0, 5), Some(State::Dead));
    net.passes = Box::new(|_, _| true);
    net.run_secs(60);
    let state = net.nodes[&0].full_state();
    net.step(2, Event::PushPull(Box::new(state)));
    net.run_secs(5);
    assert_eq!(net.nodes[&2].table().count(State::Dead), 6);
    assert_eq!(net.state(2, 0), Some(State::Confirmed));
}

/// Voters that were away or came too late agree when they are asked, and so does one that has
/// forgotten.
#[test]
fn voters_that_never_met_the_dead_agree_to_their_death() {
    let mut settings = settings();
    settings.voters = (0..4).map(id).collect();
    let mut net = Net::cluster(9, &settings);
    // Two voters start anew just when all the others die: they never meet them.
    for index in 4..9 {
        net.nodes.remove(&index);
    }
    for index in 2..4 {
        net.nodes.remove(&index);
        net.start(index, swim(peer(index, 2), settings.clone()));
    }
    net.run_secs(200);
    for at in 0..2 {
        assert_eq!(net.nodes[&at].table().count(State::Dead), 5, "{at}");
    }
    assert!(net.nodes.values().any(|n| n.counters().deaths_held > 0));
}

/// A farewell is told apart from a death, everywhere.
#[test]
fn a_farewell_is_not_a_death() {
    let mut net = Net::cluster(6, &settings());
    net.step(5, Event::Leave);
    net.run_secs(30);
    assert!(net.notices.contains(&(5, Notice::Left)));
    for at in 0..5 {
        assert_eq!(net.state(at, 5), Some(State::Left), "{at}");
        assert_eq!(net.nodes[&at].table().count(State::Dead), 0);
        assert_eq!(net.nodes[&at].counters().leaves, 1);
    }
    let now = net.now;
    assert!(net.nodes.get_mut(&5).unwrap().step(Event::Tick, now).is_empty());
}

/// Many leave at once, so most of those who hear a farewell pass it on to nobody: it is in every
/// packet of its sender.
#[test]
fn many_farewells_at_once_are_heard() {
    let mut net = Net::cluster(16, &settings());
    (4..16).for_each(|index| net.step(index, Event::Leave));
    net.run_secs(3);
    let left: usize = (0..4).map(|at| net.nodes[&at].table().count(State::Left)).sum();
    assert!(left >= 4 * 12 * 9 / 10, "{left} of 48");
}

/// A restart within the suspicion time is seen, and the new process is not killed by the old one's
/// end.
#[test]
fn a_restart_within_the_suspicion_is_visible() {
    let mut net = Net::cluster(4, &settings());
    net.nodes.remove(&3);
    net.run_secs(4);
    let version = net.version(0);
    net.start(3, swim(peer(3, 2), settings()));
    net.run_secs(60);
    let steps = net.steps(0, 3, version);
    assert!(steps.iter().any(|(_, cause)| *cause == Cause::NewLife), "{steps:?}");
    assert!(steps.iter().all(|(to, _)| *to != Some(State::Dead)), "{steps:?}");
    assert_eq!(net.nodes[&0].table().get(id(3)).map(|e| e.peer.boot), Some(BootId(2)));
    assert_eq!(net.state(0, 3), Some(State::Confirmed));
}

/// CORE-121: a pod that comes back with another address is the same node.
#[test]
fn a_node_may_come_back_at_another_address() {
    let mut net = Net::cluster(4, &settings());
    net.nodes.remove(&3);
    let mut moved = peer(3, 2);
    moved.address = address(7);
    net.nodes.insert(7, swim(moved, settings()));
    net.step(7, Event::Join(vec![address(0)]));
    net.step(7, Event::Tick);
    net.run_secs(30);
    for at in 0..3 {
        let entry = net.nodes[&at].table().get(id(3)).unwrap();
        assert_eq!((entry.state, entry.peer.address), (State::Confirmed, address(7)), "{at}");
    }
}

/// A copied data folder: the earlier life is refused, and the copy that is older falls silent.
#[test]
fn an_earlier_life_of_a_known_node_is_refused() {
    let mut net = Net::cluster(3, &settings());
    let mut stale = peer(2, 0);
    stale.address = address(5);
    net.nodes.insert(5, swim(stale, settings()));
    net.step(5, Event::Join(vec![address(0)]));
    net.step(5, Event::Tick);
    net.run_secs(10);
    assert!(net.nodes[&0].refusals().of(Refusal::StaleBoot) > 0);
    assert_eq!(net.nodes[&0].table().get(id(2)).map(|e| e.peer.boot), Some(BootId(1)));
    assert!(net.nodes[&5].table().is_empty());
}

/// R26: whoever has the gossip key can tell of a later life of anybody. The one it is told of
/// mentions it, now and then, and goes on.
#[test]
fn a_later_life_that_is_only_told_of_silences_nobody() {
    let mut net = Net::cluster(3, &settings());
    let forged = peer(2, 2);
    for _ in 0..100 {
        let mut doubted = Vec::new();
        let node = net.nodes.get_mut(&2).unwrap();
        assert_eq!(node.judge(foca::Member::alive(forged), &mut doubted), None);
        net.run_secs(1);
    }
    let told = Notice::LaterLifeTold { peer: forged };
    let times = net.notices.iter().filter(|(at, notice)| (*at, notice) == (2, &told)).count();
    assert!((3..=4).contains(&times), "{times}: mentioned, and not with every datagram");
    assert_eq!(net.nodes[&2].phase, Phase::Member);
    assert_eq!(net.state(0, 2), Some(State::Confirmed));
}

/// A data folder copied while in use: the same life at a second address is refused, directly and by
/// hearsay.
#[test]
fn one_life_cannot_be_at_two_addresses() {
    let mut net = Net::cluster(3, &settings());
    let mut copy = peer(2, 1);
    copy.address = address(5);
    net.nodes.insert(5, swim(copy, settings()));
    net.step(5, Event::Join(vec![address(0)]));
    net.step(5, Event::Tick);
    net.run_secs(10);
    assert!(net.nodes[&0].refusals().total() > 0);
    let mut doubted = Vec::new();
    let node = net.nodes.get_mut(&0).unwrap();
    let hearsay = foca::Member::new(copy, 9, foca::State::Alive);
    assert_eq!(node.judge(hearsay, &mut doubted), None);
    assert_eq!(node.table().get(id(2)).map(|e| e.peer.address), Some(address(2)));
    let mut gate = peer(7, 1);
    gate.role = Role::Gate;
    assert_eq!(node.judge(foca::Member::alive(gate), &mut doubted), None);
}

/// Another node at the address of a living member is refused, and taken once that one is dead.
#[test]
fn an_address_is_not_taken_over_from_the_living() {
    let mut net = Net::cluster(4, &settings());
    let mut thief = peer(9, 1);
    thief.address = address(3);
    let mut thief = swim(thief, settings());
    let knock = |net: &mut Net, thief: &mut Swim| {
        thief.step(Event::Join(vec![address(0)]), net.now);
        for effect in thief.step(Event::Tick, net.now) {
            if let Effect::Send { bytes, .. } = effect {
                net.step(0, Event::Datagram(bytes));
            }
        }
    };
    knock(&mut net, &mut thief);
    assert_eq!(net.nodes[&0].refusals().of(Refusal::AddressTaken), 1);
    net.nodes.remove(&3);
    net.run_secs(40);
    assert_eq!(net.state(0, 3), Some(State::Dead));
    knock(&mut net, &mut thief);
    assert_eq!(net.nodes[&0].refusals().of(Refusal::AddressTaken), 1);
}

/// Whatever was recorded and is sent again, to anybody, changes nothing and is not answered.
#[test]
fn replayed_datagrams_change_nothing() {
    let mut net = Net::cluster(4, &settings());
    net.step(3, Event::Leave);
    net.run_secs(10);
    let recorded = std::mem::take(&mut net.recorded);
    assert!(recorded.len() > 200);
    for at in 0..3 {
        let before = (net.version(at), net.nodes[&at].refusals().total());
        let mut answers = 0;
        for (_, bytes) in &recorded {
            let effects =
                net.nodes.get_mut(&at).unwrap().step(Event::Datagram(bytes.clone()), net.now);
            answers += effects.iter().filter(|e| matches!(e, Effect::Send { .. })).count();
        }
        assert_eq!(net.version(at), before.0);
        // A recorded knock that was for another address may be answered once, to its sender and no
        // longer than itself.
        assert!(answers <= 8, "{answers}");
        let refused = net.nodes[&at].refusals().total() - before.1;
        assert!(refused as usize >= recorded.len() - 8, "{refused} of {}", recorded.len());
    }
}

/// Nobody without the key can make a member do or send anything.
#[test]
fn forged_datagrams_change_nothing_and_get_no_answer() {
    let mut net = Net::cluster(3, &settings());
    let recorded = std::mem::take(&mut net.recorded);
    let version = net.version(0);
    let node = net.nodes.get_mut(&0).unwrap();
    for (at, (_, bytes)) in recorded.iter().enumerate() {
        let mut forged = bytes.clone();
        let place = at % forged.len();
        forged[place] ^= 1 << (at % 8);
        assert_eq!(node.step(Event::Datagram(forged), net.now), []);
    }
    assert_eq!(node.table().version(), version);
    assert_eq!(node.refusals().total() as usize, recorded.len());
}

/// DET-81: the death of an incarnation that has been refuted is stale. One that we have just heard
/// gets its chance to contradict.
#[test]
fn a_stale_death_is_not_believed_and_a_doubtful_one_is_checked() {
    let mut net = Net::cluster(4, &settings());
    let report = |net: &mut Net, incarnation: u16, down: bool| {
        let state = if down { foca::State::Down } else { foca::State::Alive };
        let update = foca::Member::new(peer(3, 1), incarnation, state);
        let mut doubted = Vec::new();
        let node = net.nodes.get_mut(&0).unwrap();
        (node.judge(update, &mut doubted), doubted)
    };
    if let Some(entry) = net.nodes.get_mut(&0).unwrap().table.edit(id(3)) {
        entry.incarnation = 7;
        entry.last_heard = Some(Duration::ZERO);
    }
    assert_eq!(report(&mut net, 6, true), (None, vec![]));
    assert_eq!(net.nodes[&0].counters().deaths_stale, 1);
    assert!(report(&mut net, 7, true).0.is_some_and(|u| u.state() == foca::State::Down));
    let now = net.now;
    net.nodes.get_mut(&0).unwrap().table.edit(id(3)).unwrap().last_heard = Some(now);
    let (update, doubted) = report(&mut net, 7, true);
    assert_eq!(update.map(|u| u.state()), Some(foca::State::Suspect));
    assert_eq!(doubted, [id(3)]);
}

/// Paused for twice the longest time-out and resumed, it judges nobody before its socket is empty.
#[test]
fn a_paused_process_judges_nobody_before_it_has_read_its_socket() {
    let mut net = Net::cluster(6, &settings());
    net.paused.insert(2);
    let patience = net.nodes[&2].patience();
    net.run(patience.max * 2);
    net.paused.remove(&2);
    let version = net.version(2);
    // A tick before anything was read: no verdict, no suspicion, no probe.
    net.step(2, Event::Tick);
    assert!(net.nodes[&2].is_draining());
    assert_eq!(net.version(2), version);
    net.step(2, Event::Tick);
    assert_eq!(net.version(2), version);
    net.run(Duration::ZERO);
    net.step(2, Event::Drained);
    assert!(!net.nodes[&2].is_draining());
    net.run_secs(60);
    assert_eq!(net.nodes[&2].counters().deaths_direct, 0);
    assert!(net.nodes[&2].counters().stalls > 0);
    for at in 0..6 {
        assert_eq!(net.nodes[&at].table().count(State::Confirmed), 5, "{at}");
    }
}

/// CORE-2, ARCH-12: what a member says of itself rides on its probes.
#[test]
fn heartbeats_ride_on_probes() {
    let mut net = Net::cluster(3, &settings());
    net.step(1, Event::Heartbeat(vec![42]));
    net.run_secs(10);
    for at in [0, 2] {
        assert_eq!(net.nodes[&at].table().get(id(1)).map(|e| e.heartbeat.clone()), Some(vec![42]));
    }
    net.step(1, Event::Heartbeat(vec![0; 4000]));
    assert!(net.notices.contains(&(1, Notice::HeartbeatTooLong { bytes: 4000 })));
}

/// DET-15: a proxy that gets no answer says so, and the one who asked does not blame itself.
#[test]
fn proxies_say_when_they_get_no_answer() {
    let mut net = Net::cluster(5, &settings());
    net.nodes.remove(&4);
    net.run_secs(12);
    let sent: u64 = net.nodes.values().map(|n| n.counters().nacks_out).sum();
    let heard: u64 = net.nodes.values().map(|n| n.counters().nacks_in).sum();
    assert!(sent > 0 && heard > 0, "{sent} {heard}");
}

/// The buddy rule: the suspect learns of it in the next packet that anybody sends it.
#[test]
fn a_suspect_is_told_at_once() {
    let told = |lifeguard: Lifeguard| {
        let mut settings = settings();
        settings.lifeguard = lifeguard;
        let mut net = Net::cluster(3, &settings);
        net.passes = Box::new(|from, _| from != 2);
        while net.state(0, 2) == Some(State::Confirmed) {
            net.run(Duration::from_millis(50));
        }
        // Only what 0 sends to 2 from here on: does its next probe say it?
        net.recorded.clear();
        net.run_secs(4);
        let mut reader = swim(peer(2, 1), settings.clone());
        net.recorded
            .iter()
            .filter(|(to, _)| *to == 2)
            .filter_map(|(_, bytes)| reader.checkpoint.open(bytes).ok())
            .filter(|packet| packet.from.node == id(0) && packet.ask.is_some())
            .all(|packet: Packet| packet.rumours.first().is_some_and(|r| r.about == id(2)))
    };
    assert!(told(Lifeguard::ON));
    assert!(!told(Lifeguard { buddy: false, suspicion: false, ..Lifeguard::ON }));
}

/// A bad update from a member that holds the key is refused as a whole.
#[test]
fn what_does_not_come_from_its_sender_is_malformed() {
    let mut node = swim(peer(0, 1), settings());
    let mut checkpoint = Checkpoint::new(id(1), domain(), ring(), 8);
    let mut rng = StdRng::seed_from_u64(3);
    let header = foca::Header {
        src: peer(2, 1),
        src_incarnation: 0,
        dst: peer(0, 1),
        message: foca::Message::Gossip,
    };
    let mut packet = Packet::new(peer(1, 1), "fra1");
    packet.swim = postcard::to_allocvec(&header).unwrap();
    let bytes = checkpoint.seal(&mut packet, Some(id(0)), &mut rng);
    assert_eq!(node.step(Event::Datagram(bytes), Duration::ZERO), []);
    assert_eq!(node.refusals().of(Refusal::Malformed), 1);
    assert!(node.table().is_empty());
}
