//! Epochs: numbers that only rise, issued by one Raft group.
//!
//! The number is the place in the group's log of the entry that granted it, so two grants cannot
//! share one and no counter can be lost. A group that was rebuilt (from a backup, or from nothing)
//! counts from 1 again; its generation is then higher, and stands before the number.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A Raft group, and how often it was rebuilt.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct GroupId {
    pub cluster: u64,
    /// Rises when the group is rebuilt; never otherwise.
    pub generation: u32,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.cluster, self.generation)
    }
}

/// A right to act, as a number under the group that issued it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Epoch {
    pub group: GroupId,
    pub number: u64,
}

impl Epoch {
    /// Commands travel in batches: the number is the entry's index and the command's position in
    /// it.
    pub const POSITIONS: u32 = 1 << 16;

    /// The epoch of command `position` of the entry at `index`.
    ///
    /// # Panics
    /// If the index does not fit; at a million entries a second that is after four years of nothing
    /// else.
    #[must_use]
    pub fn at(group: GroupId, index: u64, position: u16) -> Self {
        assert!(index < 1 << 48, "log index {index} does not fit an epoch");
        Self { group, number: index << 16 | u64::from(position) }
    }

    /// The log index that this epoch stands for.
    #[must_use]
    pub fn index(self) -> u64 {
        self.number >> 16
    }
}

/// Epochs of different clusters cannot be compared; within one, a later generation is higher.
impl PartialOrd for Epoch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.group.cluster != other.group.cluster {
            return None;
        }
        Some((self.group.generation, self.number).cmp(&(other.group.generation, other.number)))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}+{}", self.group, self.index(), self.number & 0xffff)
    }
}

/// Which try at a shard: 1, 2, 3 ...
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The next try. The last number there is has itself as its next, which every fencing_table
    /// refuses.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a command carries: on whose authority, and for which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub epoch: Epoch,
    pub attempt: Attempt,
}
