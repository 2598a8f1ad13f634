//! The one node table: who is known, in which state, since when.
//!
//! It has one writer, the [`Swim`](crate::member::Swim) that owns it. Every change gets the next
//! version. A consumer keeps the version it has seen and asks for what came after; when it has been
//! away for too long it is told so, reads the table as it is now and goes on from there. Nothing is
//! lost that still matters: the table is the truth, the changes only say where to look.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fence::NodeId;

use crate::identity::{Life, Peer};

/// How many changes are kept for those who come back late.
const CHANGES_MAX: usize = 4096;

/// What this node thinks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Only heard of. It can neither be suspected nor die (DET-10).
    Unconfirmed,
    /// It has spoken to us itself.
    Confirmed,
    /// Somebody could not reach it, and it has not yet answered for itself.
    Suspect,
    Dead,
    /// It has said goodbye.
    Left,
}

impl State {
    pub const ALL: [Self; 5] =
        [Self::Unconfirmed, Self::Confirmed, Self::Suspect, Self::Dead, Self::Left];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Confirmed => "confirmed",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Left => "left",
        }
    }

    /// Whether it takes part: it may be slow or under suspicion, but nobody has given it up.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Confirmed | Self::Suspect)
    }
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// This node's own observation: it heard it, or its own suspicion ran out.
    Direct,
    /// Others say so.
    Gossip,
    /// It said goodbye.
    Leave,
    /// A later life has taken the place of this one.
    NewLife,
    /// It was never confirmed, and its time is over (LIFE-105).
    NeverConfirmed,
    /// It has been gone for so long that it is forgotten.
    Reaped,
}

/// One node as it is known here. Times count from this node's start.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub peer: Peer,
    /// Empty until it has spoken to us.
    pub datacenter: String,
    pub state: State,
    pub incarnation: u16,
    pub first_seen: Duration,
    /// When it came into this state.
    pub since: Duration,
    pub last_heard: Option<Duration>,
    /// It has answered a probe of ours, so both ways work: it may be offered work or votes (R12).
    pub two_way: bool,
    pub rtt: Option<Duration>,
    pub heartbeat: Vec<u8>,
    /// Heartbeats that overtake each other must not roll it back.
    pub(crate) heartbeat_sequence: u64,
    /// How often it was declared dead.
    pub deaths: u32,
    pub confirm_attempts: u32,
    /// When it is knocked at again, if it is still unconfirmed then.
    pub next_attempt: Duration,
    pub(crate) warn_at: Duration,
}

/// One step of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub version: u64,
    pub peer: Peer,
    pub incarnation: u16,
    pub from: Option<State>,
    /// `None`: it is no longer in the table.
    pub to: Option<State>,
    pub cause: Cause,
}

/// The changes asked for are no longer there: read the table and go on from `version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    pub version: u64,
}

/// What is left of a node that is no longer in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tombstone {
    life: Life,
    until: Duration,
}

#[derive(Clone, Debug)]
pub struct Table {
    entries: BTreeMap<NodeId, Entry>,
    by_address: BTreeMap<SocketAddr, NodeId>,
    tombstones: BTreeMap<NodeId, Tombstone>,
    counts: [usize; State::ALL.len()],
    changes: VecDeque<Change>,
    version: u64,
    nodes_max: usize,
}

impl Table {
    pub(crate) fn new(nodes_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_address: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            counts: [0; State::ALL.len()],
            changes: VecDeque::new(),
            version: 0,
            nodes_max,
        }
    }

    /// Rises by one with every change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Entry> {
        self.entries.get(&node)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    /// Confirmed members that are not dead, not counting this node.
    #[must_use]
    pub fn live(&self) -> usize {
        self.count(State::Confirmed) + self.count(State::Suspect)
    }

    /// Every change after `version`, oldest first.
    pub fn since(&self, version: u64) -> Result<impl Iterator<Item = &Change>, Missed> {
        let kept_from = self.version - self.changes.len() as u64;
        if version < kept_from || version > self.version {
            return Err(Missed { version: self.version });
        }
        Ok(self.changes.range((version - kept_from) as usize..))
    }

    /// Who has this address and is not gone.
    pub(crate) fn at_address(&self, address: SocketAddr) -> Option<&Entry> {
        self.by_address.get(&address).and_then(|node| self.entries.get(node))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.nodes_max
    }

    /// Nothing about this life is believed, because it was given up.
    pub(crate) fn is_buried(&self, node: NodeId, life: Life, now: Duration) -> bool {
        self.tombstones.get(&node).is_some_and(|stone| life <= stone.life && now < stone.until)
    }

    pub(crate) fn edit(&mut self, node: NodeId) -> Option<&mut Entry> {
        self.entries.get_mut(&node)
    }

    /// A node that was unknown. The caller has checked that there is room.
    pub(crate) fn insert(&mut self, peer: Peer, state: State, cause: Cause, now: Duration) {
        let entry = Entry {
            peer,
            datacenter: String::new(),
            state,
            incarnation: 0,
            first_seen: now,
            since: now,
            last_heard: None,
            two_way: false,
            rtt: None,
            heartbeat: Vec::new(),
            heartbeat_sequence: 0,
            deaths: 0,
            confirm_attempts: 0,
            next_attempt: now,
            warn_at: now,
        };
        self.tombstones.remove(&peer.node);
        self.by_address.insert(peer.address, peer.node);
        self.entries.insert(peer.node, entry);
        self.counts[state as usize] += 1;
        self.record(peer, 0, None, Some(state), cause);
    }

    /// Moves a node to another state; says whether that was a change. An illegal step is refused:
    /// it would be a bug of the caller, and the table stays right.
    pub(crate) fn set(&mut self, node: NodeId, to: State, cause: Cause, now: Duration) -> bool {
        let Some(entry) = self.entries.get_mut(&node) else { return false };
        let from = entry.state;
        if from == to || !is_legal(from, to, cause) {
            debug_assert!(from == to, "{from:?} -> {to:?} by {cause:?}");
            return false;
        }
        entry.state = to;
        entry.since = now;
        entry.deaths += u32::from(to == State::Dead);
        let (peer, incarnation) = (entry.peer, entry.incarnation);
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        self.record(peer, incarnation, Some(from), Some(to), cause);
        true
    }

    /// A later life of a known node, in state `to`.
    pub(crate) fn rebirth(&mut self, peer: Peer, to: State, now: Duration) {
        let Some(entry) = self.entries.get_mut(&peer.node) else { return };
        let (old, from) = (entry.peer, entry.state);
        entry.peer = peer;
        entry.incarnation = 0;
        entry.state = to;
        entry.since = now;
        if peer.boot != old.boot {
            // Another process: what the old one answered proves nothing about the new one.
            entry.two_way = false;
            entry.heartbeat.clear();
            entry.heartbeat_sequence = 0;
            entry.confirm_attempts = 0;
            entry.first_seen = now;
            entry.warn_at = now;
        }
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        if self.by_address.get(&old.address) == Some(&peer.node) {
            self.by_address.remove(&old.address);
        }
        self.by_address.insert(peer.address, peer.node);
        self.record(peer, 0, Some(from), Some(to), Cause::NewLife);
    }

    /// Takes a node out. Until `until` nothing about this life is believed.
    pub(crate) fn bury(&mut self, node: NodeId, cause: Cause, until: Duration) {
        let Some(entry) = self.entries.remove(&node) else { return };
        self.counts[entry.state as usize] -= 1;
        if self.by_address.get(&entry.peer.address) == Some(&node) {
            self.by_address.remove(&entry.peer.address);
        }
        self.bury_life(node, entry.peer.life(), until);
        self.record(entry.peer, entry.incarnation, Some(entry.state), None, cause);
    }

    /// A tombstone for a node that was not in the table.
    pub(crate) fn bury_life(&mut self, node: NodeId, life: Life, until: Duration) {
        if self.tombstones.len() < self.nodes_max || self.tombstones.contains_key(&node) {
            self.tombstones.insert(node, Tombstone { life, until });
        }
    }

    pub(crate) fn drop_old_tombstones(&mut self, now: Duration) {
        self.tombstones.retain(|_, stone| now < stone.until);
    }

    fn record(
        &mut self,
        peer: Peer,
        incarnation: u16,
        from: Option<State>,
        to: Option<State>,
        cause: Cause,
    ) {
        self.version += 1;
        if self.changes.len() >= CHANGES_MAX {
            self.changes.pop_front();
        }
        let version = self.version;
        self.changes.push_back(Change { version, peer, incarnation, from, to, cause });
    }
}

/// Whether a member may go from one state to another for this cause (DET-1). New lives go through
/// [`Table::rebirth`], removal through [`Table::bury`].
fn is_legal(from: State, to: State, cause: Cause) -> bool {
    use State::{Confirmed, Dead, Left, Suspect, Unconfirmed};
    match (from, to) {
        (Unconfirmed, Confirmed) => cause == Cause::Direct,
        (Confirmed, Suspect) | (Suspect, Confirmed) | (Suspect, Dead) => true,
        // One's own observation never skips the suspicion (DET-12).
        (Confirmed, Dead) => cause == Cause::Gossip,
        (Confirmed | Suspect | Unconfirmed, Left) => cause == Cause::Leave,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fence::BootId;
    use trust::Role;

    fn peer(node: u128, boot: u64) -> Peer {
        let address = SocketAddr::from(([10, 0, 0, node as u8], 1));
        Peer { node: NodeId(node), role: Role::Worker, address, boot: BootId(boot), generation: 0 }
    }

    const NOW: Duration = Duration::from_secs(9);

    /// DET-1, DET-12: the transition table, complete.
    #[test]
    fn only_the_listed_transitions_are_legal() {
        use Cause::{Direct, Gossip, Leave};
        use State::{Confirmed, Dead, Left, Suspect, Unconfirmed};
        let legal = [
            (Unconfirmed, Confirmed, Direct),
            (Unconfirmed, Left, Leave),
            (Confirmed, Suspect, Direct),
            (Confirmed, Suspect, Gossip),
            (Confirmed, Suspect, Leave),
            (Confirmed, Dead, Gossip),
            (Confirmed, Left, Leave),
            (Suspect, Confirmed, Direct),
            (Suspect, Confirmed, Gossip),
            (Suspect, Confirmed, Leave),
            (Suspect, Dead, Direct),
            (Suspect, Dead, Gossip),
            (Suspect, Dead, Leave),
            (Suspect, Left, Leave),
        ];
        for from in State::ALL {
            for to in State::ALL {
                for cause in [Direct, Gossip, Leave] {
                    let expected = legal.contains(&(from, to, cause));
                    assert_eq!(is_legal(from, to, cause), expected, "{from:?} {to:?} {cause:?}");
                }
            }
        }
    }

    /// A consumer resumes from a version, or is told to read the table.
    #[test]
    fn changes_are_resumable_and_bounded() {
        let mut table = Table::new(10_000);
        for node in 0..(CHANGES_MAX as u128 + 10) {
            table.insert(peer(node, 1), State::Confirmed, Cause::Direct, NOW);
        }
        let version = table.version();
        assert_eq!(table.since(version - 3).unwrap().count(), 3);
        assert_eq!(table.since(version).unwrap().count(), 0);
        assert_eq!(table.since(0).err(), Some(Missed { version }));
        assert_eq!(table.since(version + 1).err(), Some(Missed { version }), "another table's");
        let first = table.since(version - CHANGES_MAX as u64).unwrap().next().unwrap().version;
        assert_eq!(first, version - CHANGES_MAX as u64 + 1);
    }

    /// What was buried stays so for its life, and a later life is welcome.
    #[test]
    fn a_tombstone_holds_for_its_life_and_its_time() {
        let mut table = Table::new(8);
        table.insert(peer(1, 5), State::Unconfirmed, Cause::Gossip, NOW);
        table.bury(NodeId(1), Cause::NeverConfirmed, NOW * 2);
        let life = |boot| Life { boot: BootId(boot), generation: 0 };
        assert!(table.is_buried(NodeId(1), life(5), NOW));
        assert!(table.is_buried(NodeId(1), life(4), NOW));
        assert!(!table.is_buried(NodeId(1), life(6), NOW));
        assert!(!table.is_buried(NodeId(1), life(5), NOW * 2));
        assert_eq!((table.len(), table.count(State::Unconfirmed)), (0, 0));
    }
}
