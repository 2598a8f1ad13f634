//! Who does not answer the leader, by the product's own detector.
//!
//! The group is a model here: a leader hears the members that it reaches. A message that is lost is sent again, later
//! each time, and what follows on the same connection waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use control::detector::{Detector, Patience};
use fence::NodeId;

use super::super::world::{Host, World};

/// As `ledger::silence` has it.
const ELECTION: Duration = Duration::from_millis(600);
/// A manager that did not do its rounds for so long stood still.
const STOOD_STILL: Duration = Duration::from_millis(200);

pub fn detector() -> Detector<NodeId> {
    Detector::new(Patience { first: ELECTION * 3, most: ELECTION * 15 })
}

impl World {
    /// One round of a manager: as the leader it hears those that answer, as a member it hears the leader.
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
