//! openraft's names, filled in. Nothing outside of `ledger` sees an openraft type.

use std::fmt;

use fence::NodeId;
use ledger_state::{Proposal, Reply};
use serde::{Deserialize, Serialize};

use crate::runtime::Runtime;

/// One log entry: the commands that waited while the entry before was under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Batch {
    /// The ledger's time by the leader's clock when it took them. What they decide is decided at
    /// that time, and not at the last full second.
    pub time_ms: u64,
    pub proposals: Vec<Proposal>,
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.proposals.len())
    }
}

/// What the members know of each other. The disk is part of who a member is: one that comes back
/// with an empty disk has forgotten its votes, and is refused until it was admitted again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub address: String,
    pub disk: DiskId,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (disk {})", self.address, self.disk)
    }
}

/// Drawn when a data folder is made, and kept in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DiskId(pub u64);

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The state machine at one instant, encoded; what a snapshot file holds and what travels to a
/// member that is far behind.
#[derive(Clone, Debug, Default)]
pub struct SnapshotBytes(pub std::sync::Arc<Vec<u8>>);

openraft::declare_raft_types!(
    pub TypeConfig:
        D = Batch,
        R = Vec<Reply>,
        NodeId = NodeId,
        Node = Member,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotBytes,
        AsyncRuntime = Runtime,
);

pub type Raft = openraft::Raft<TypeConfig>;
pub type Entry = openraft::Entry<TypeConfig>;
pub type LogId = openraft::LogId<NodeId>;
pub type Vote = openraft::Vote<NodeId>;
pub type StoredMembership = openraft::StoredMembership<NodeId, Member>;
pub type SnapshotMeta = openraft::SnapshotMeta<NodeId, Member>;
pub type StorageError = openraft::StorageError<NodeId>;
