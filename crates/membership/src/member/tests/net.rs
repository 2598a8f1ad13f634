//! A handful of members on a network that can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use fence::{BootId, NodeId};
use rand010::SeedableRng;
use rand010::rngs::StdRng;
use trust::Role;

use crate::envelope::{Domain, KeyRing};
use crate::identity::Peer;
use crate::member::{Effect, Event, Identity, Notice, Swim};
use crate::settings::Settings;
use crate::table::{Cause, Change, State};

const LATENCY: Duration = Duration::from_millis(2);

pub(super) fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, (index >> 8) as u8, index as u8], 7000))
}

pub(super) fn id(index: usize) -> NodeId {
    NodeId((index as u128 + 1) << 96)
}

pub(super) fn domain() -> Domain {
    let (cluster, environment) = ("prod".to_owned(), "eu".to_owned());
    Domain { cluster, environment, roles: vec![Role::Manager, Role::Worker] }
}

pub(super) fn ring() -> KeyRing {
    KeyRing::new(std::array::from_fn(|i| i as u8 * 5)).unwrap()
}

pub(super) fn swim(peer: Peer, settings: Settings) -> Swim {
    let identity = Identity { peer, datacenter: "fra1".into(), domain: domain() };
    let seed = peer.node.0 as u64 ^ (peer.node.0 >> 64) as u64 ^ peer.boot.0;
    Swim::new(identity, ring(), settings, StdRng::seed_from_u64(seed))
}

pub(super) fn peer(index: usize, boot: u64) -> Peer {
    let role = Role::Manager;
    Peer { node: id(index), role, address: address(index), boot: BootId(boot), generation: 0 }
}

/// Members that run, and what is on its way between them.
pub(super) struct Net {
    pub(super) nodes: BTreeMap<usize, Swim>,
    pub(super) now: Duration,
    /// A process that does not run; its datagrams wait.
    pub(super) paused: BTreeSet<usize>,
    /// Whether a datagram from one to another gets through.
    pub(super) passes: Box<dyn Fn(usize, usize) -> bool>,
    pub(super) recorded: Vec<(usize, Vec<u8>)>,
    pub(super) notices: Vec<(usize, Notice)>,
    queue: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    number: u64,
}

impl Net {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::new(),
            now: Duration::ZERO,
            paused: BTreeSet::new(),
            passes: Box::new(|_, _| true),
            recorded: Vec::new(),
            notices: Vec::new(),
            queue: BTreeMap::new(),
            number: 0,
        }
    }

    /// `count` managers that know the first one's address, and have found each other.
    pub(super) fn cluster(count: usize, settings: &Settings) -> Self {
        let mut net = Self::new();
        for index in 0..count {
            net.start(index, swim(peer(index, 1), settings.clone()));
        }
        net.run(Duration::from_secs(10 + 2 * count as u64));
        for (index, node) in &net.nodes {
            assert_eq!(node.table().count(State::Confirmed), count - 1, "{index}");
        }
        net
    }

    pub(super) fn start(&mut self, index: usize, swim: Swim) {
        self.nodes.insert(index, swim);
        self.step(index, Event::Join(vec![address(0), address(1)]));
        self.step(index, Event::Tick);
    }

    pub(super) fn step(&mut self, index: usize, event: Event) {
        let Some(node) = self.nodes.get_mut(&index) else { return };
        let effects = node.step(event, self.now);
        for effect in effects {
            match effect {
                Effect::Send { to, bytes } => self.send(index, to, bytes),
                Effect::Notice(notice) => self.notices.push((index, notice)),
                Effect::Changed { .. } => {}
            }
        }
    }

    fn send(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) {
        let Some(to) = (0..self.nodes.len() + 8).find(|index| address(*index) == to) else {
            return;
        };
        if (self.passes)(from, to) {
            self.number += 1;
            self.queue.insert((self.now + LATENCY, self.number), (to, bytes));
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let awake = |index: &usize| !self.paused.contains(index);
            let wake =
                self.nodes.iter().filter(|(i, _)| awake(i)).map(|(i, s)| (s.next_wake(), *i)).min();
            let arrival = self.queue.iter().find(|(_, (to, _))| awake(to)).map(|(key, _)| *key);
            let wake_at = wake.map_or(Duration::MAX, |(at, _)| at);
            let arrives_at = arrival.map_or(Duration::MAX, |(at, _)| at);
            if wake_at.min(arrives_at) > until {
                break;
            }
            // Datagrams before ticks.
            if let Some(key) = arrival.filter(|_| arrives_at <= wake_at) {
                self.now = self.now.max(arrives_at);
                if let Some((to, bytes)) = self.queue.remove(&key) {
                    self.recorded.push((to, bytes.clone()));
                    self.step(to, Event::Datagram(bytes));
                }
            } else if let Some((at, index)) = wake {
                self.now = self.now.max(at);
                self.step(index, Event::Tick);
            }
        }
        self.now = until;
    }

    pub(super) fn run_secs(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    pub(super) fn state(&self, at: usize, of: usize) -> Option<State> {
        self.nodes[&at].table().get(id(of)).map(|entry| entry.state)
    }

    /// The steps that `of` has taken at `at` since `version`.
    pub(super) fn steps(&self, at: usize, of: usize, version: u64) -> Vec<(Option<State>, Cause)> {
        let changes: Vec<Change> =
            self.nodes[&at].table().since(version).unwrap().copied().collect();
        let of = id(of);
        changes.iter().filter(|c| c.peer.node == of).map(|c| (c.to, c.cause)).collect()
    }

    pub(super) fn version(&self, at: usize) -> u64 {
        self.nodes[&at].table().version()
    }
}
