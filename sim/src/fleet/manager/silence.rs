//! Who does not answer the leader, by the product's own detector.
//!
//! The group is a model here: a leader hears the members that it reaches. A message that is lost is
//! sent again, later each time, and what follows on the same connection waits for it.
//!
//! Where there are streams ([`super::super::stream`]) its messages go through them, on connections
//! of their own as in `ledger`: appends once a heartbeat, whose answers count within one; and a
//! question on another connection to whoever was not heard for half of the patience.

use std::collections::BTreeSet;
use std::time::Duration;

use base::detector::{Detector, Patience};
use fence::NodeId;

use super::super::world::{Host, Lane, Packet, World};

/// As `ledger::silence` has it.
const ELECTION: Duration = Duration::from_millis(600);
/// A manager that did not do its rounds for so long stood still.
const STOOD_STILL: Duration = Duration::from_millis(200);

pub fn detector() -> Detector<NodeId> {
    Detector::new(Patience { first: ELECTION * 3, most: ELECTION * 15 })
}

impl World {
    /// One round of a manager: as the leader it hears those that answer, as a member it hears the
    /// leader.
    pub fn look_at_group(&mut self, m: usize) {
        let Some(leader) = self.book.leader else { return };
        let now = self.managers[m].clock.read(self.now);
        let others: Vec<usize> = match leader == m {
            true => (0..self.managers.len()).filter(|other| *other != m).collect(),
            false => vec![leader],
        };
        let node = |world: &Self, other: &usize| world.managers[*other].node;
        let nodes: Vec<NodeId> = others.iter().map(|other| node(self, other)).collect();
        let late = self.now.saturating_sub(self.managers[m].looked);
        let host = &mut self.managers[m];
        host.looked = self.now;
        if late > STOOD_STILL {
            host.hears.stood_still(late, now);
        }
        host.hears.watch(nodes, now);
        if self.net.streams.is_some() {
            if leader == m {
                self.append(m, &others);
            }
            return;
        }
        for other in others {
            let (linked, node) = (self.linked(m, other), node(self, &other));
            if !linked {
                continue;
            }
            if !self.is_up(Host::Manager(other)) {
                self.managers[m].hears.refused(node, now);
            } else if self.runs(Host::Manager(other)) && self.gets_through(m, other) {
                self.managers[m].hears.heard(node, now);
            }
        }
    }

    /// As the leader says something to the members, through streams.
    fn append(&mut self, m: usize, others: &[usize]) {
        let (now, local) = (self.now, self.managers[m].clock.read(self.now));
        let timing = ledger::config::Timing::default();
        let due = now - self.managers[m].appended >= timing.heartbeat;
        if due {
            self.managers[m].appended = now;
        }
        for other in others.iter().copied() {
            if due {
                self.say_in_group(m, other, (Lane::Raft, now, false));
            }
            let node = self.managers[other].node;
            let host = &mut self.managers[m];
            let doubt = host.hears.patience(local) / 2;
            let quiet = host.hears.quiet_for(node, local).is_some_and(|quiet| quiet >= doubt);
            let asked = host.asking.get(&other);
            let waits = asked.is_some_and(|since| now - *since < timing.election_max);
            if quiet && !waits {
                host.asking.insert(other, now);
                self.say_in_group(m, other, (Lane::Work, now, false));
            }
        }
    }

    fn say_in_group(&mut self, from: usize, to: usize, what: (Lane, Duration, bool)) {
        let (lane, began, answer) = what;
        let packet = Packet::Group { from, lane, began, answer };
        self.send(Host::Manager(from), Host::Manager(to), 0, packet);
    }

    pub(super) fn in_the_group(&mut self, m: usize, from: usize, what: (Lane, Duration, bool)) {
        let (lane, began, answer) = what;
        let (now, node) = (self.managers[m].clock.read(self.now), self.managers[from].node);
        let timing = ledger::config::Timing::default();
        if !answer {
            if lane == Lane::Raft {
                self.managers[m].hears.heard(node, now);
            }
            return self.say_in_group(m, from, (lane, began, true));
        }
        let within = if lane == Lane::Raft { timing.heartbeat } else { timing.election_max };
        if lane == Lane::Work {
            self.managers[m].asking.remove(&from);
        }
        if self.now - began <= within {
            self.managers[m].hears.heard(node, now);
        }
    }

    /// What a member proposes or reads is a sign of life to the leader.
    pub(super) fn leader_hears(&mut self, m: usize) {
        let Some(leader) = self.book.leader.filter(|_| self.net.streams.is_some()) else { return };
        let now = self.managers[leader].clock.read(self.now);
        let node = self.managers[m].node;
        self.managers[leader].hears.heard(node, now);
    }

    /// Whether a question to another manager and its answer arrive now.
    fn gets_through(&mut self, m: usize, other: usize) -> bool {
        let pair = (m.min(other), m.max(other));
        let lost = self.net.lost;
        if self.now < self.book.held_up.get(&pair).copied().unwrap_or_default() {
            return false;
        }
        let mut delay = Duration::ZERO;
        let mut again = Duration::from_millis(200);
        while lost > 0 && (self.rng.u8(..100) < lost || self.rng.u8(..100) < lost) {
            delay += again;
            again *= 2;
        }
        self.book.held_up.insert(pair, self.now + delay);
        delay.is_zero()
    }

    /// What the leader says, at a manager that hears it.
    pub fn silent_to_leader(&self, m: usize) -> BTreeSet<NodeId> {
        match self.book.leader {
            Some(leader) if self.can_commit(m) => {
                let host = &self.managers[leader];
                host.hears
                    .silent(host.clock.read(self.now))
                    .filter(|node| *node != self.managers[m].node)
                    .collect()
            }
            _ => BTreeSet::new(),
        }
    }
}
