//! Who may have how many connections to one listener.
//!
//! The places are shared out, so that no certificate, and no role, can lock the others out: each
//! peer has a share of its own, those who are no members (clients, gates, join tokens) have half of
//! the places together, and the last ones are for managers, without whom nothing is decided.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fence::NodeId;
use trust::{Identity, Role};

/// Of the places, one in so many is for managers alone.
const KEPT_FOR_MANAGERS: usize = 16;

/// What one certificate may have open at a listener. A node needs a few: one for each purpose, and
/// those that are being made anew. Pipelines share a client's certificate, and a gate speaks for
/// many clients.
#[must_use]
pub fn per_peer(role: Role) -> usize {
    match role {
        Role::Client | Role::Manager => 64,
        Role::Gate => 128,
        Role::Worker | Role::Recruit => 16,
    }
}

fn is_member(role: Role) -> bool {
    matches!(role, Role::Manager | Role::Worker)
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// This certificate has as many as it may.
    Peer,
    /// Those who are no members have as many as they may.
    Outsiders,
    /// All are taken but those that are kept for managers.
    All,
}

impl NoPlace {
    /// A short name for metrics; the set is fixed.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Peer => "too_many_of_peer",
            Self::Outsiders => "too_many_outsiders",
            Self::All => "too_many",
        }
    }
}

#[derive(Default)]
struct Taken {
    all: usize,
    outsiders: usize,
    peers: BTreeMap<NodeId, usize>,
}

/// The places of one listener.
pub struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

impl Places {
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// # Errors
    /// If this one has to wait until another ends.
    pub fn take(self: &Arc<Self>, who: &Identity) -> Result<Place, NoPlace> {
        let mut taken = self.lock();
        let own = taken.peers.get(&who.node).copied().unwrap_or_default();
        let outsider = !is_member(who.role);
        let kept = if who.role == Role::Manager { 0 } else { self.max / KEPT_FOR_MANAGERS };
        if taken.all + kept >= self.max {
            return Err(NoPlace::All);
        }
        if own >= per_peer(who.role) {
            return Err(NoPlace::Peer);
        }
        if outsider && taken.outsiders >= self.max.div_ceil(2) {
            return Err(NoPlace::Outsiders);
        }
        taken.all += 1;
        taken.outsiders += usize::from(outsider);
        taken.peers.insert(who.node, own + 1);
        Ok(Place { places: Arc::clone(self), node: who.node, outsider })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place. Dropping it gives it back.
pub struct Place {
    places: Arc<Places>,
    node: NodeId,
    outsider: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        taken.outsiders -= usize::from(self.outsider);
        if let Some(own) = taken.peers.get_mut(&self.node) {
            *own -= 1;
            if *own == 0 {
                taken.peers.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(role: Role, node: u128) -> Identity {
        let text = String::from;
        let (cluster, environment, datacenter) = (text("shop"), text("dev"), text("fra1"));
        Identity { role, cluster, environment, datacenter, node: NodeId(node) }
    }

    /// One client with 3,000 connections used to lock everybody else out.
    #[test]
    fn one_client_has_its_share_and_leaves_the_rest() {
        let places = Places::new(1024);
        let greedy: Vec<_> = (0..3_000).map(|_| places.take(&who(Role::Client, 1))).collect();
        assert_eq!(greedy.iter().filter(|place| place.is_ok()).count(), 64);
        assert!(matches!(greedy[64], Err(NoPlace::Peer)));
        let other = places.take(&who(Role::Client, 2));
        assert!(other.is_ok());
        drop(greedy);
        assert!(places.take(&who(Role::Client, 1)).is_ok());
        drop(other);
        assert!(places.lock().peers.is_empty() && places.lock().all == 0);
    }

    /// Many clients together leave half of the places to members, and all others leave the last
    /// ones to managers.
    #[test]
    fn places_are_kept_for_members_and_for_managers() {
        let places = Places::new(1024);
        let mut held = Vec::new();
        let mut fill = |role, nodes: std::ops::Range<u128>| {
            let before = held.len();
            for node in nodes {
                held.extend((0..128).map_while(|_| places.take(&who(role, node)).ok()));
            }
            held.len() - before
        };
        assert_eq!(fill(Role::Client, 0..100), 512);
        assert_eq!(fill(Role::Gate, 100..110), 0, "gates are outsiders, too");
        assert_eq!(fill(Role::Worker, 1_000..2_000), 448);
        assert_eq!(fill(Role::Manager, 3_000..3_010), 64);
        assert!(matches!(places.take(&who(Role::Manager, 9_000)), Err(NoPlace::All)));
    }
}
