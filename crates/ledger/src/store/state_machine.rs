//! openraft's view of the state machine and its snapshots.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ledger_state::{Reply, State};
use openraft::storage::RaftStateMachine;
use openraft::{
    EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, RaftSnapshotBuilder, Snapshot,
};

use super::applied::{Applied, Instant};
use super::convert;
use super::record::MembersAt;
use super::snapshot::{self, Header, SnapshotError, Snapshots};
use crate::types::{
    Entry, LogId, SnapshotBytes, SnapshotMeta, StorageError, StoredMembership, TypeConfig,
};

#[derive(Clone)]
pub struct StateMachine {
    applied: Arc<Applied>,
    snapshots: Arc<Snapshots>,
}

/// Builds a snapshot of the instant at which it was asked for.
pub struct SnapshotBuilder {
    instant: Arc<Instant>,
    snapshots: Arc<Snapshots>,
}

/// A full or failing disk need not stop the node, which has its log: the snapshot is tried again
/// after 1, 2, 4 ... 64 s.
const TRIES: u32 = 8;

impl StateMachine {
    pub(super) fn new(applied: Arc<Applied>, snapshots: Arc<Snapshots>) -> Self {
        Self { applied, snapshots }
    }
}

fn snapshot_error(verb: ErrorVerb, error: io::Error) -> StorageError {
    StorageError::from_io_error(ErrorSubject::Snapshot(None), verb, error)
}

fn refused(error: SnapshotError) -> StorageError {
    snapshot_error(ErrorVerb::Read, io::Error::new(io::ErrorKind::InvalidData, error))
}

fn meta(header: &Header) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: header.last.map(convert::log_id),
        last_membership: convert::stored_membership(header.members.clone()),
        snapshot_id: header.id.clone(),
    }
}

/// Verifies a snapshot to the last byte, the state in it included.
pub fn open_snapshot(bytes: &[u8]) -> Result<(Header, Instant), SnapshotError> {
    let (header, body) = snapshot::decode(bytes)?;
    let state =
        State::decode(body).map_err(|error| SnapshotError::Damaged { what: error.to_string() })?;
    if header.group.is_some_and(|group| group != state.group()) {
        return Err(SnapshotError::Mismatch { what: "header and state name two groups".into() });
    }
    let instant =
        Instant { state, group: header.group, last: header.last, members: header.members.clone() };
    Ok((header, instant))
}

/// Verifies the bytes of a snapshot to the last, and says what they are of.
pub fn verify_snapshot(bytes: &[u8]) -> Result<Header, SnapshotError> {
    open_snapshot(bytes).map(|(header, _)| header)
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        let last = self.applied.last().map(convert::log_id);
        Ok((last, convert::stored_membership(self.applied.members())))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Vec<Reply>>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        for entry in entries {
            let at = convert::position(&entry.log_id);
            answers.push(match entry.payload {
                EntryPayload::Blank => {
                    self.applied.pass(at, None);
                    Vec::new()
                }
                EntryPayload::Membership(membership) => {
                    let members = convert::members(&membership);
                    self.applied.pass(at, Some(MembersAt { at: Some(at), members }));
                    Vec::new()
                }
                EntryPayload::Normal(batch) => {
                    self.applied.commands(at, &batch).ok_or_else(|| {
                        StorageError::from_io_error(
                            ErrorSubject::Apply(entry.log_id),
                            ErrorVerb::Write,
                            io::Error::other("a command arrived before the node knew its group"),
                        )
                    })?
                }
            });
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder {
            instant: Arc::new(self.applied.copy()),
            snapshots: self.snapshots.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotBytes>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        announced: &SnapshotMeta,
        received: Box<SnapshotBytes>,
    ) -> Result<(), StorageError> {
        let (header, instant) = open_snapshot(&received.0).map_err(refused)?;
        if meta(&header) != *announced {
            let what = format!("it says entry {}, snapshot {}", header.index(), header.id);
            return Err(refused(SnapshotError::Mismatch { what }));
        }
        let ours = self.applied.group();
        if ours.is_some() && header.group.is_some() && ours != header.group {
            return Err(refused(SnapshotError::Mismatch { what: "it is of another group".into() }));
        }
        let Some(last) = header.last else {
            return Err(refused(SnapshotError::Mismatch { what: "it is empty".into() }));
        };
        let written = self.snapshots.write(last, received.0).await;
        written.map_err(|error| snapshot_error(ErrorVerb::Write, error))?;
        self.applied.replace(instant);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        match self.snapshots.read_newest().await {
            Ok(None) => Ok(None),
            Ok(Some((header, bytes))) => Ok(Some(Snapshot {
                meta: meta(&header),
                snapshot: Box::new(SnapshotBytes(Arc::new(bytes))),
            })),
            Err(error) => {
                // The state is in memory, whole: a new file repairs what the disk has lost.
                tracing::error!(%error, "the newest snapshot cannot be read; it is made again");
                self.get_snapshot_builder().await.build_snapshot().await.map(Some)
            }
        }
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        let instant = self.instant.clone();
        let encoded = self.snapshots.lane().run(move |_| encode(&instant)).await;
        let (header, bytes) = encoded.map_err(|error| snapshot_error(ErrorVerb::Write, error))?;
        let bytes = Arc::new(bytes);
        if let Some(last) = header.last {
            let mut tried = 0;
            while let Err(error) = self.snapshots.write(last, bytes.clone()).await {
                tried += 1;
                if tried == TRIES || error.kind() == io::ErrorKind::FileTooLarge {
                    return Err(snapshot_error(ErrorVerb::Write, error));
                }
                let wait = Duration::from_secs(1 << (tried - 1));
                tracing::error!(%error, ?wait, "a snapshot could not be written; it is tried again");
                tokio::time::sleep(wait).await;
            }
        }
        Ok(Snapshot { meta: meta(&header), snapshot: Box::new(SnapshotBytes(bytes)) })
    }
}

/// The bytes of a snapshot. The same instant gives the same bytes on every member.
fn encode(instant: &Instant) -> io::Result<(Header, Vec<u8>)> {
    let body = instant.state.encode();
    let id = instant.last.map_or_else(String::new, |last| {
        format!("{}-{}-{}", last.leader.term, last.leader.node, last.index)
    });
    let header = Header {
        group: instant.group,
        last: instant.last,
        members: instant.members.clone(),
        id,
        body: body.len() as u64,
    };
    let bytes = snapshot::encode(&header, &body).map_err(io::Error::other)?;
    Ok((header, bytes))
}
