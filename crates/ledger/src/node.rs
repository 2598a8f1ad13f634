//! A member of a ledger group: what can be asked of it, and how it stops. [`crate::start`] and
//! [`crate::writing`] have the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use fence::{BootId, GroupId, NodeId};
use ledger_state::{BlobRef, SessionId, State};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::answer::{Read, ReadError, ReadLevel};
use crate::blobs::{BlobError, BlobReader, BlobWriter};
use crate::copies::{self, CopyError};
use crate::core::Core;
use crate::election::Event;
use crate::members::{self, Change, Changed};
use crate::metrics::Metrics;
use crate::peers::{Client, Lane};
use crate::reads;
use crate::types::{DiskId, Member};
use crate::wire::proto::StatusRequest;

/// Where a node stands, for people and for whoever routes to it.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    pub node: NodeId,
    pub boot: BootId,
    pub disk: DiskId,
    pub group: Option<GroupId>,
    pub term: u64,
    /// Whoever leads, as far as this node knows.
    pub leader: Option<(NodeId, String)>,
    /// This node leads, and a majority has answered it lately. A leader that was cut off says no.
    pub leads: bool,
    pub applied: u64,
    pub last_log: u64,
    /// The last entry of the newest snapshot.
    pub snapshot: Option<u64>,
    pub voters: Vec<(NodeId, Member)>,
    /// Where the entry that made them voters stands in the log: term and index. A later one is
    /// greater.
    pub membership: (u64, u64),
    pub learners: Vec<(NodeId, Member)>,
    /// A change of the voters is half done: those that leave are still among them.
    pub changing: bool,
    /// Requests of this node without an answer, and those of them that nobody waits for.
    pub open_requests: usize,
    pub unknown_requests: usize,
    /// What stands between this node and a group.
    pub waiting_for: Option<String>,
    pub failed: Option<String>,
}

/// A running member. Dropping it stops it at once, as a crash would; [`Node::shutdown`] stops it in
/// order.
pub struct Node {
    pub(crate) core: Arc<Core>,
    /// The node's own tasks; none in a mere handle.
    pub(crate) tasks: Option<JoinSet<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.tasks.is_some() {
            self.core.stopping.send_replace(true);
            // Whoever still holds a connection gets no answer from a Raft that has stopped.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let raft = self.core.raft.clone();
                runtime.spawn(async move { raft.shutdown().await });
            }
        }
    }
}

impl Node {
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core, tasks: None }
    }

    /// Another handle to this node. It does not keep the node running.
    #[must_use]
    pub fn handle(&self) -> Self {
        Self::of(Arc::clone(&self.core))
    }

    pub fn id(&self) -> NodeId {
        self.core.me.node
    }

    pub fn session(&self) -> SessionId {
        self.core.session
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.core.metrics
    }

    /// Whether the log takes nothing more, because its disk has refused a write or a flush.
    pub fn is_poisoned(&self) -> bool {
        self.core.storage.poisoned().is_some()
    }

    /// What the log counts: fsync times, batches, bytes.
    pub fn wal_metrics(&self) -> wal::Metrics {
        self.core.storage.wal_metrics()
    }

    /// Why this node has stopped serving; `None` while all is well.
    pub fn failed(&self) -> watch::Receiver<Option<String>> {
        self.core.failed.subscribe()
    }

    /// An unhealthy node lets others stand for election first. It is not barred.
    pub fn set_healthy(&self, good: bool) {
        let _ = self.core.election.try_send(Event::Health { good });
    }

    /// The ledger's time as it was last read here, and the uptime then: for the next process of
    /// this machine.
    pub fn time_read(&self) -> Option<crate::timekeeper::Reading> {
        self.core.time.last()
    }

    pub fn status(&self) -> NodeStatus {
        let core = &self.core;
        let standing = core.standing();
        let members = || standing.membership.membership().nodes();
        let of_kind = |voter: bool| {
            members()
                .filter(|(id, _)| standing.is_voter(**id) == voter)
                .map(|(id, member)| (*id, member.clone()))
                .collect()
        };
        let (open_requests, unknown_requests) = core.requests().count();
        NodeStatus {
            node: core.me.node,
            boot: core.session.boot,
            disk: core.me.disk,
            group: core.group(),
            term: standing.vote.leader_id().get_term(),
            leader: standing.leader.as_ref().map(|(id, member)| (*id, member.address.clone())),
            leads: core.claims(),
            applied: core.applied.index().unwrap_or(0),
            last_log: standing.last_log.unwrap_or(0),
            snapshot: standing.snapshot.map(|snapshot| snapshot.index),
            voters: of_kind(true),
            membership: standing
                .membership
                .log_id()
                .map_or((0, 0), |at| (at.leader_id.term, at.index)),
            learners: of_kind(false),
            changing: standing.is_changing(),
            open_requests,
            unknown_requests,
            waiting_for: core.waiting.borrow().clone(),
            failed: core.failure(),
        }
    }

    /// Waits until somebody leads. False if nobody does within the time.
    pub async fn wait_for_leader(&self, within: Duration) -> bool {
        let mut standing = self.core.standing.clone();
        let known = standing.wait_for(|standing| standing.leader.is_some());
        matches!(timeout(within, known).await, Ok(Ok(_)))
    }

    /// The last entry that the state contains; wakes up when there is a new one.
    pub fn applied(&self) -> watch::Receiver<Option<u64>> {
        self.core.applied.watch()
    }

    /// Members that do not answer the leader, as it says; none while no leader is heard. A hint
    /// (R6): it may cause a proposal, and proves nothing.
    pub fn silent(&self) -> watch::Receiver<BTreeSet<NodeId>> {
        self.core.links.silence.watch()
    }

    /// Reads the state. `look` sees it under a lock, so it should be brief.
    pub async fn read<T>(
        &self,
        level: ReadLevel,
        within: Duration,
        look: impl FnOnce(&State) -> T,
    ) -> Result<Read<T>, ReadError> {
        reads::read(&self.core, level, within, look).await
    }

    /// Stores bytes beside the log. When this returns they are fsynced on a majority of the voters.
    pub async fn put_blob(&self, bytes: Vec<u8>, within: Duration) -> Result<BlobRef, CopyError> {
        copies::put(&self.core, bytes, within).await
    }

    /// The bytes, verified; from another member if they are missing or damaged here.
    pub async fn get_blob(&self, blob: &BlobRef, within: Duration) -> Result<Vec<u8>, CopyError> {
        copies::get(&self.core, blob, within).await
    }

    /// Begins to store a blob part by part, on this node's disk first.
    pub async fn begin_blob(&self, blob: BlobRef) -> Result<BlobWriter, BlobError> {
        self.core.blobs.begin(blob).await
    }

    /// Stores what was written on a majority of the voters, as [`Node::put_blob`] does.
    pub async fn put_written(
        &self,
        writer: BlobWriter,
        within: Duration,
    ) -> Result<BlobRef, CopyError> {
        copies::put_written(&self.core, writer, within).await
    }

    /// A blob to be read part by part; fetched from another member first if it is missing here.
    pub async fn blob_reader(
        &self,
        blob: &BlobRef,
        within: Duration,
    ) -> Result<BlobReader, CopyError> {
        copies::bring(&self.core, blob, within).await?;
        self.core.blobs.reader(blob).await.map_err(CopyError::Here)
    }

    /// The first bytes of a blob, at most so many; not verified.
    pub async fn blob_head(
        &self,
        blob: &BlobRef,
        most: usize,
        within: Duration,
    ) -> Result<Vec<u8>, CopyError> {
        copies::head(&self.core, blob, most, within).await
    }

    /// Whether this node has a blob, by look-up: nothing is read. It is not collected soon then.
    #[must_use]
    pub fn has_blob(&self, blob: &BlobRef) -> bool {
        self.core.blobs.touch(blob)
    }

    /// Changes the members, here or at the leader. One change at a time.
    pub async fn change_members(&self, change: Change, within: Duration) -> Changed {
        members::change(&self.core, change, within, true).await
    }

    /// Asks another node how it is, over the wire.
    pub async fn ask_status(
        &self,
        address: &str,
        within: Duration,
    ) -> Result<crate::wire::proto::StatusReply, tonic::Status> {
        let call = |mut client: Client| async move { client.status(StatusRequest {}).await };
        self.core.links.peers.call(Lane::Work, address, within, call).await
    }

    /// Makes a snapshot now.
    pub async fn snapshot(&self) -> Result<(), ReadError> {
        let triggered = self.core.raft.trigger().snapshot().await;
        triggered.map_err(|error| ReadError::Stopped(error.to_string()))
    }

    /// Stops in order: nothing new is taken, what was accepted is written out, the folder is let
    /// go.
    pub async fn shutdown(mut self) {
        let core = Arc::clone(&self.core);
        core.stopping.send_replace(true);
        let patience = core.timing.request;
        if timeout(patience, core.raft.shutdown()).await.is_err() {
            tracing::warn!(node = %core.me.node, "Raft did not stop in time");
        }
        if let Some(mut tasks) = self.tasks.take() {
            tasks.shutdown().await;
        }
        drop(self);
        // The server holds the last references until its connections are closed.
        let deadline = Instant::now() + patience;
        let mut core = core;
        loop {
            match Arc::try_unwrap(core) {
                Ok(alone) => {
                    let Core { storage, raft, .. } = alone;
                    drop(raft);
                    if let Some(storage) = Arc::into_inner(storage)
                        && let Err(error) = storage.close().await
                    {
                        tracing::warn!(%error, "the storage was not closed in order");
                    }
                    return;
                }
                Err(shared) if Instant::now() >= deadline => {
                    tracing::warn!(node = %shared.me.node, "somebody still holds the node");
                    return;
                }
                Err(shared) => core = shared,
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}
