//! Peers that were only heard of: what confirms them, how long each role is waited for, and what
//! they do not count for.

use std::time::Duration;

use foca::Message;
use rand010::SeedableRng;
use rand010::rngs::StdRng;
use trust::Role;

use super::net::{Net, domain, id, peer, ring, swim};
use super::settings;
use crate::envelope::{Checkpoint, Domain, Intent, Nack, Packet};
use crate::identity::Peer;
use crate::lifeguard::LocalHealth;
use crate::member::{Event, FullState, Identity, Notice, Record, Standing, Swim, role_index};
use crate::settings::Settings;
use crate::table::State;

fn alive(peer: Peer) -> Record {
    Record { peer, datacenter: String::new(), incarnation: 0, standing: Standing::Alive }
}

/// Somebody has told of these.
fn told(from: Peer, members: Vec<Peer>) -> Event {
    let members = members.into_iter().map(alive).collect();
    Event::PushPull(Box::new(FullState { from: alive(from), members }))
}

/// What one peer sends to node 0, sealed.
struct Speaker {
    peer: Peer,
    checkpoint: Checkpoint,
    rng: StdRng,
}

impl Speaker {
    fn new(peer: Peer, domain: Domain) -> Self {
        let checkpoint = Checkpoint::new(peer.node, domain, ring(), 64);
        Self { peer, checkpoint, rng: StdRng::seed_from_u64(9) }
    }

    fn say(&mut self, to: &Swim, fill: impl FnOnce(&mut Packet)) -> Event {
        let mut packet = Packet::new(self.peer, "fra1");
        fill(&mut packet);
        let to = (packet.intent != Intent::Knock).then(|| to.me().node);
        Event::Datagram(self.checkpoint.seal(&mut packet, to, &mut self.rng))
    }

    fn message(&mut self, to: &Swim, message: Message<Peer>) -> Event {
        let (src, dst) = (self.peer, to.me());
        let header = foca::Header { src, src_incarnation: 0, dst, message };
        self.say(to, |packet| packet.swim = postcard::to_allocvec(&header).unwrap())
    }
}

/// A member of this role, alone, in the membership that it belongs to.
fn of_role(role: Role) -> (Swim, Domain) {
    let roles = if role == Role::Gate { vec![role] } else { vec![Role::Manager, Role::Worker] };
    let domain = Domain { roles, ..domain() };
    let identity = Identity {
        peer: Peer { role, ..peer(0, 1) },
        datacenter: "fra1".into(),
        domain: domain.clone(),
    };
    (Swim::new(identity, ring(), settings(), StdRng::seed_from_u64(5)), domain)
}

/// Ticks until `until`, and says when each notice came.
fn tick(node: &mut Swim, from: Duration, until: Duration) -> Vec<(Duration, Notice)> {
    let mut notices = Vec::new();
    let mut now = from;
    while now < until {
        now = node.next_wake().clamp(now, until);
        for effect in node.step(Event::Tick, now) {
            if let crate::member::Effect::Notice(notice) = effect {
                notices.push((now, notice));
            }
        }
        now += Duration::from_millis(1);
    }
    notices
}

fn state(node: &Swim, index: usize) -> Option<State> {
    node.table().get(id(index)).map(|entry| entry.state)
}

/// DET-9: whatever a peer says to us itself confirms it, in every kind of message; a knock, which
/// is said to anybody, does not.
#[test]
fn every_word_of_its_own_confirms_a_peer() {
    let (other, number) = (peer(3, 1), 1);
    let messages: [Message<Peer>; 9] = [
        Message::Ping(number),
        Message::Ack(number),
        Message::PingReq { target: other, probe_number: number },
        Message::IndirectPing { origin: other, probe_number: number },
        Message::IndirectAck { target: other, probe_number: number },
        Message::ForwardedAck { origin: other, probe_number: number },
        Message::Announce,
        Message::Feed,
        Message::Gossip,
    ];
    type Say = Box<dyn FnOnce(&mut Speaker, &Swim) -> Event>;
    let mut ways: Vec<(String, Say)> = Vec::new();
    for message in messages {
        let name = format!("{message:?}");
        ways.push((name, Box::new(|speaker, to| speaker.message(to, message))));
    }
    let answer: Say = Box::new(|s, to| s.say(to, |packet| packet.intent = Intent::Answer));
    ways.push(("an answer".into(), answer));
    let nack = Nack { target: id(3), probe: number };
    ways.push(("a nack".into(), Box::new(move |s, to| s.say(to, |p| p.nacks.push(nack)))));
    ways.push(("an exchange".into(), Box::new(|s, _| told(s.peer, Vec::new()))));
    for (name, way) in ways {
        let mut node = swim(peer(0, 1), settings());
        node.step(told(peer(2, 1), vec![peer(1, 1)]), Duration::ZERO);
        assert_eq!(state(&node, 1), Some(State::Unconfirmed), "{name}");
        let mut speaker = Speaker::new(peer(1, 1), domain());
        let knock = speaker.say(&node, |packet| packet.intent = Intent::Knock);
        node.step(knock, Duration::ZERO);
        assert_eq!(state(&node, 1), Some(State::Unconfirmed), "{name}");
        let event = way(&mut speaker, &node);
        node.step(event, Duration::ZERO);
        assert_eq!(state(&node, 1), Some(State::Confirmed), "{name}");
    }
}

/// DET-6: a peer is confirmed once, however much it says afterwards; that only shows that it is
/// well.
#[test]
fn a_peer_is_confirmed_once() {
    let mut node = swim(peer(0, 1), settings());
    node.step(told(peer(2, 1), vec![peer(1, 1)]), Duration::ZERO);
    let version = node.table().version();
    let mut speaker = Speaker::new(peer(1, 1), domain());
    for second in 1..20 {
        let event = speaker.message(&node, Message::Gossip);
        node.step(event, Duration::from_millis(second * 10));
        let heard = node.table().get(id(1)).unwrap().last_heard;
        assert_eq!(heard, Some(Duration::from_millis(second * 10)));
    }
    let steps: Vec<_> = node.table().since(version).unwrap().map(|change| change.to).collect();
    assert_eq!(steps, [Some(State::Confirmed)]);
}

/// DET-4: who was only heard of is no member: it does not count for time-outs, and is not shown to
/// others.
#[test]
fn an_unconfirmed_peer_counts_for_nothing() {
    let mut net = Net::cluster(3, &settings());
    let before = net.nodes[&0].patience();
    let one = net.nodes[&1].me();
    let strangers: Vec<_> = (10..40).map(|index| peer(index, 1)).collect();
    net.step(0, told(one, strangers));
    let node = &net.nodes[&0];
    assert_eq!((node.table().live(), node.table().count(State::Unconfirmed)), (2, 30));
    assert_eq!(node.patience(), before);
    assert_eq!(node.full_state().members.len(), 2);
}

/// DET-30: how long a suspicion lasts follows the members that there are now, not those at the
/// start.
#[test]
fn patience_follows_the_cluster_as_it_is() {
    let mut net = Net::cluster(3, &settings());
    let small = net.nodes[&0].patience();
    for index in 3..16 {
        net.start(index, swim(peer(index, 1), settings()));
    }
    net.run_secs(40);
    let large = net.nodes[&0].patience();
    assert!(large.min > small.min && large.confirmations > small.confirmations);
    for index in 3..16 {
        net.step(index, Event::Leave);
        net.run_secs(3);
        net.nodes.remove(&index);
    }
    net.run_secs(60);
    assert_eq!(net.nodes[&0].patience(), small);
}

/// DET-22, DET-44: what is kept is bounded by the number of nodes that a membership is made for.
#[test]
fn no_more_is_kept_than_the_membership_is_made_for() {
    let mut node = swim(peer(0, 1), Settings { nodes_max: 8, ..settings() });
    for index in 1..200 {
        node.step(told(peer(1, 1), vec![peer(index, 1)]), Duration::ZERO);
    }
    assert_eq!(node.table().len(), 8);
    assert!(node.counters().updates_refused >= 150);
}

/// DET-19: in all tiers the same: a silent peer is not suspected, its word confirms it, and then
/// silence counts.
#[test]
fn every_tier_confirms_before_it_suspects() {
    use Role::{Gate, Manager, Worker};
    for (ours, theirs) in [(Gate, Gate), (Manager, Manager), (Worker, Manager), (Manager, Worker)] {
        let (mut node, domain) = of_role(ours);
        let (teller, other) =
            (Peer { role: ours, ..peer(2, 1) }, Peer { role: theirs, ..peer(1, 1) });
        let mut speakers = [teller, other].map(|peer| Speaker::new(peer, domain.clone()));
        node.step(told(teller, vec![other]), Duration::ZERO);
        let mut now = Duration::ZERO;
        // The teller goes on speaking; the other is silent.
        for second in 1..20 {
            let until = Duration::from_secs(second);
            tick(&mut node, now, until);
            now = until;
            let event = speakers[0].message(&node, Message::Gossip);
            node.step(event, now);
        }
        assert_eq!(state(&node, 1), Some(State::Unconfirmed), "{ours} {theirs}");
        let event = speakers[1].message(&node, Message::Gossip);
        node.step(event, now);
        assert_eq!(state(&node, 1), Some(State::Confirmed), "{ours} {theirs}");
        tick(&mut node, now, now + Duration::from_secs(8));
        assert_eq!(state(&node, 1), Some(State::Suspect), "{ours} {theirs}");
    }
}

/// When an unconfirmed peer of this role was knocked at and when it was given up.
fn given_up(role: Role, health: LocalHealth) -> (Vec<Duration>, Duration) {
    let (mut node, _) = of_role(if role == Role::Gate { Role::Gate } else { Role::Manager });
    let (teller, other) =
        (Peer { role: node.me().role, ..peer(2, 1) }, Peer { role, ..peer(1, 1) });
    node.step(told(teller, vec![other]), Duration::ZERO);
    let (mut knocks, mut now) = (Vec::new(), Duration::ZERO);
    while now < Duration::from_secs(2000) {
        let next = now + Duration::from_millis(100);
        let before = node.counters().confirm_attempts[role_index(role)];
        // As bad as it is, whatever its probes say.
        node.health = health;
        let notices = tick(&mut node, now, next);
        now = next;
        let after = node.counters().confirm_attempts[role_index(role)];
        knocks.extend((before..after).map(|_| now));
        let removed = Notice::UnconfirmedPeerRemoved { peer: other };
        if notices.iter().any(|(_, notice)| *notice == removed) {
            assert_eq!(node.counters().unconfirmed_removed[role_index(role)], 1);
            return (knocks, now);
        }
    }
    panic!("{role} was never given up");
}

/// LIFE-102, LIFE-103, LIFE-106: each role has its time, then so many extra knocks five seconds
/// apart, a worker none; a member that is not well waits up to three times as long.
#[test]
fn each_role_is_waited_for_as_long_as_its_policy_says() {
    let well = LocalHealth::default();
    let mut sick = LocalHealth::default();
    sick.worsen(LocalHealth::WORST);
    // They are looked after every five seconds.
    let slack = 5.2;
    for (role, passive, attempts) in
        [(Role::Gate, 120, 5), (Role::Manager, 90, 3), (Role::Worker, 180, 0)]
    {
        for (health, scale) in [(well, 1), (sick, 3)] {
            let (knocks, end) = given_up(role, health);
            assert_eq!(knocks.len(), attempts, "{role}");
            let begin = f64::from(passive * scale);
            for (number, at) in knocks.iter().chain([&end]).enumerate() {
                let (at, due) = (at.as_secs_f64(), begin + 5.0 * number as f64);
                assert!(
                    at >= due && at <= due + slack,
                    "{role} x{scale}, {number}: {at} for {due}"
                );
            }
            for pair in knocks.windows(2) {
                let apart = (pair[1] - pair[0]).as_secs_f64();
                assert!((4.9..5.3).contains(&apart), "{role}: {apart}");
            }
        }
    }
}
