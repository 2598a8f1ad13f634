//! The ledger on disk: who the node is, the Raft log, the state machine's snapshots, and the blobs
//! beside them.
//!
//! ```text
//! DATA/identity    node, start, disk, group; replaced as a whole
//!      lock        held while a node runs
//!      wal/        the Raft log: entries, votes
//!      snapshots/  the newest two
//!      blobs/ab/   content by hash
//!      aside-N/    logs that were given up, for a human to look at
//! ```
//!
//! Everything goes through the disk that is handed in, so that the simulator can fail it at any
//! call.

mod applied;
mod convert;
pub mod files;
mod identity;
pub(crate) mod lane;
pub(crate) mod live_log;
mod log_store;
pub(crate) mod open;
mod raft_log;
pub(crate) mod record;
pub(crate) mod snapshot;
mod state_machine;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::{GroupId, Hlc, NodeId};
use ledger_state::Limits;
use wal::Disk;

pub use applied::{Applied, Instant};
pub use identity::{Identity, IdentityError};
pub use log_store::{LogReader, LogStore};
pub use open::{OpenError, Recovered};
pub use record::{Ballot, Leader, Members, MembersAt, Position};
pub use snapshot::{Header as SnapshotHeader, SnapshotError};
pub use state_machine::{SnapshotBuilder, StateMachine, verify_snapshot};

pub(crate) use identity::IdentityFile;
pub(crate) use state_machine::open_snapshot;

use crate::blobs::{BlobLimits, Blobs};
use crate::types::{DiskId, SnapshotBytes};
use lane::{Lane, lock};
use raft_log::RaftLog;
use snapshot::Snapshots;

/// Who does the writing: a thread of its own, or, in a simulation, a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalOwner {
    Thread,
    Task,
}

/// Draws a number: from the operating system, or from a simulation's seed.
pub type Draw = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Stamps a record.
pub type Clock = Arc<dyn Fn() -> Hlc + Send + Sync>;

#[derive(Clone)]
pub struct StoreOptions {
    /// The id that a new folder gets; drawn if not given. A folder that has another one is refused.
    pub node: Option<NodeId>,
    pub draw: Draw,
    pub clock: Clock,
    pub wal: wal::Options,
    pub blobs: BlobLimits,
    /// A snapshot may have this many bytes.
    pub snapshot_bytes: u64,
}

/// A node's data folder, open. Dropping it leaves the folder as a crash would; `close` ends it in
/// order.
pub struct Storage {
    folder: PathBuf,
    identity: Mutex<IdentityFile>,
    recovered: Recovered,
    log: Arc<RaftLog>,
    snapshots: Arc<Snapshots>,
    applied: Arc<Applied>,
    blobs: Blobs,
    lane: Arc<Lane>,
    /// Let go last.
    _hold: lane::Hold,
}

impl Storage {
    pub fn identity(&self) -> Identity {
        lock(&self.identity).identity
    }

    /// The limits that the group was made with.
    pub fn limits(&self) -> Option<Limits> {
        lock(&self.identity).limits.clone()
    }

    /// What was found when the folder was opened.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Whether the disk has (or had, before this node is admitted again) nothing on it of what this
    /// node may have voted for: it must not vote.
    pub fn fresh_disk(&self) -> bool {
        self.recovered.new_folder || self.identity().awaits_admission
    }

    pub fn log_store(&self) -> LogStore {
        LogStore::new(self.log.clone(), self.snapshots.clone(), self.applied.clone())
    }

    pub fn state_machine(&self) -> StateMachine {
        StateMachine::new(self.applied.clone(), self.snapshots.clone())
    }

    pub fn shared(&self) -> Arc<Applied> {
        self.applied.clone()
    }

    pub fn blobs(&self) -> Blobs {
        self.blobs.clone()
    }

    /// Fixes the group, once and for all, before the node takes part in it. The limits are those of
    /// the group's founder.
    pub async fn set_group(&self, group: GroupId, limits: Limits) -> Result<(), OpenError> {
        let mut file = lock(&self.identity).clone();
        match file.identity.group {
            Some(known) if known == group => return Ok(()),
            Some(known) => return Err(OpenError::OtherGroup { known, asked: group }),
            None => {}
        }
        file.identity.group = Some(group);
        file.limits = Some(limits.clone());
        self.save(file).await?;
        self.applied.set_group(group, limits);
        Ok(())
    }

    /// Notes that the group has admitted this node with its present disk: it may vote from now on.
    pub async fn admitted(&self) -> Result<(), OpenError> {
        let mut file = lock(&self.identity).clone();
        if !file.identity.awaits_admission {
            return Ok(());
        }
        file.identity.awaits_admission = false;
        self.save(file).await
    }

    async fn save(&self, file: IdentityFile) -> Result<(), OpenError> {
        let (folder, saved) = (self.folder.clone(), file.clone());
        let done = self.lane.run(move |disk| Ok(saved.save(disk, &folder))).await;
        done.map_err(|error| OpenError::io(&self.folder, error))??;
        *lock(&self.identity) = file;
        Ok(())
    }

    /// Bytes of log that a snapshot made now would save a restart from replaying. The trigger of
    /// snapshots by size.
    pub fn log_bytes_since_snapshot(&self) -> u64 {
        let newest = self.snapshots.newest().map(|newest| newest.index);
        self.log.look(|live| live.bytes_after(newest))
    }

    /// Entries that are kept in memory, and their bytes.
    pub fn log_size(&self) -> (u64, u64) {
        self.log.look(|live| (live.entries(), live.bytes()))
    }

    pub fn wal_metrics(&self) -> wal::Metrics {
        self.log.wal().metrics()
    }

    /// Whether the disk runs full. What the group has decided is still written down; new work
    /// should be refused.
    pub fn space_is_low(&self) -> bool {
        self.log.wal().metrics().low_space
    }

    /// Why the log takes nothing more, if so. The node must then stop; nothing of it can be
    /// acknowledged.
    pub fn poisoned(&self) -> Option<String> {
        self.log.wal().poisoned()
    }

    /// Verifies a snapshot that was received, before it is handed to the consensus: a bad one must
    /// cost a message, not the node.
    pub fn check_snapshot(
        &self,
        received: &SnapshotBytes,
    ) -> Result<SnapshotHeader, SnapshotError> {
        let header = verify_snapshot(&received.0)?;
        let ours = self.applied.group();
        if ours.is_some() && header.group.is_some() && ours != header.group {
            return Err(SnapshotError::Mismatch { what: "it is of another group".into() });
        }
        Ok(header)
    }

    /// Writes out what is accepted, closes the files and lets go of the folder.
    pub async fn close(self) -> Result<(), OpenError> {
        let closed = self.log.wal().close().await;
        self.lane.close().await;
        closed.map_err(|error| OpenError::io(&self.folder, std::io::Error::other(error)))
    }

    /// Gives up a damaged log so that the node can be admitted again: the log is moved aside, never
    /// deleted, and the folder gets a new disk id, with which the node may not vote before a member
    /// has admitted it.
    pub fn reset(
        disk: &dyn Disk,
        folder: &Path,
        draw: &Draw,
        why: &str,
    ) -> Result<DiskId, OpenError> {
        open::reset(disk, folder, draw, why)
    }
}
