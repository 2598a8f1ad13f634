//! openraft's view of the Raft log.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, OptionalSend, RaftLogReader};

use super::applied::Applied;
use super::convert;
use super::raft_log::{LogError, RaftLog};
use super::record::{Position, RecordError, Stored};
use super::snapshot::Snapshots;
use crate::types::{Entry, LogId, StorageError, TypeConfig, Vote};

/// Content of the entries that one message to a follower carries, at most.
const READ_BYTES: u64 = 1 << 20;

/// The log as the consensus writes it.
pub struct LogStore {
    log: Arc<RaftLog>,
    snapshots: Arc<Snapshots>,
    applied: Arc<Applied>,
}

/// How long an append waits for the snapshot before it to be written.
const INSTALL_LIMIT: Duration = Duration::from_secs(60);

/// The log as replication reads it.
#[derive(Clone)]
pub struct LogReader {
    log: Arc<RaftLog>,
}

fn storage_error(
    subject: ErrorSubject<fence::NodeId>,
    verb: ErrorVerb,
    error: &(dyn std::error::Error + 'static),
) -> StorageError {
    StorageError::from_io_error(subject, verb, io::Error::other(error.to_string()))
}

fn write_error(error: &LogError) -> StorageError {
    storage_error(ErrorSubject::Logs, ErrorVerb::Write, error)
}

impl LogStore {
    pub(super) fn new(log: Arc<RaftLog>, snapshots: Arc<Snapshots>, applied: Arc<Applied>) -> Self {
        Self { log, snapshots, applied }
    }

    /// Makes a purge durable that had to wait for its snapshot.
    async fn settle_purge(&self) -> Result<(), LogError> {
        let Some(purged) = self.log.deferred() else { return Ok(()) };
        let mut applied = self.applied.watch();
        let installed = applied.wait_for(|index| *index >= Some(purged.index));
        let in_time = tokio::time::timeout(INSTALL_LIMIT, installed).await;
        if !in_time.is_ok_and(|found| found.is_ok()) {
            return Err(LogError::NoSnapshot { purged });
        }
        self.log.purge(purged, self.snapshots.oldest()).await
    }
}

impl LogReader {
    fn entries(&self, from: u64, to: u64, bytes: u64) -> Result<Vec<Entry>, Unreadable> {
        let stored = self.log.read(from..to, bytes);
        let read =
            |stored: &Stored| convert::entry(stored).map_err(|error| (stored.position, error));
        stored.iter().map(read).collect()
    }
}

type Unreadable = (Position, RecordError);

fn read_error((position, error): Unreadable) -> StorageError {
    storage_error(ErrorSubject::Log(convert::log_id(position)), ErrorVerb::Read, &error)
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, StorageError>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let from = match range.start_bound() {
            Bound::Included(&index) => index,
            Bound::Excluded(&index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&index) => index.saturating_add(1),
            Bound::Excluded(&index) => index,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(from, to, u64::MAX).map_err(read_error)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(start, end, READ_BYTES).map_err(read_error)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, StorageError>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        LogReader { log: self.log.clone() }.try_get_log_entries(range).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        Ok(self.log.look(|live| LogState {
            last_purged_log_id: live.purged().map(convert::log_id),
            last_log_id: live.last().map(convert::log_id),
        }))
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader { log: self.log.clone() }
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = self.log.save_vote(convert::ballot(vote)).await;
        saved.map_err(|error| storage_error(ErrorSubject::Vote, ErrorVerb::Write, &error))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.log.look(|live| live.vote()).map(convert::vote))
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let position = committed.as_ref().map(convert::position);
        self.log.save_committed(position).map_err(|error| write_error(&error))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(self.log.look(|live| live.committed()).map(convert::log_id))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let stored: Result<Vec<_>, _> = entries.into_iter().map(convert::stored).collect();
        let stored = stored.map_err(|error| write_error(&error.into()))?;
        self.settle_purge().await.map_err(|error| write_error(&error))?;
        match self.log.append(stored).await {
            Ok(Some(pending)) => {
                let log = self.log.clone();
                tokio::spawn(async move {
                    let flushed = log.flushed(pending).await;
                    callback.log_io_completed(flushed.map_err(io::Error::other));
                });
            }
            Ok(None) => callback.log_io_completed(Ok(())),
            Err(error) => return Err(write_error(&error)),
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.log.truncate(log_id.index).await.map_err(|error| write_error(&error))
    }

    /// The consensus purges the log for a snapshot that it has received *before* the state machine
    /// has written it: a crash in between would leave neither. So nothing is given up on disk
    /// before a snapshot covers it.
    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let purged = convert::position(&log_id);
        let covered = self.snapshots.newest().is_some_and(|newest| newest.index >= purged.index);
        if !covered {
            self.log.purge_in_memory(purged).await;
            return Ok(());
        }
        let done = self.log.purge(purged, self.snapshots.oldest()).await;
        done.map_err(|error| write_error(&error))
    }
}
