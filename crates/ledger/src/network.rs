//! Raft's calls to other members, as openraft wants them.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use fence::{GroupId, NodeId};
use ledger_state::Limits;
use openraft::error::{
    Fatal, NetworkError, PayloadTooLarge, RPCError, RaftError, ReplicationClosed, StreamingError,
    Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, Snapshot};
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::messages::{Ballot, SnapshotHead};
use crate::metrics::Metrics;
use crate::peers::{Client, Lane, Peers};
use crate::silence::Silence;
use crate::standing::Standing;
use crate::types::{Member, SnapshotBytes, TypeConfig, Vote};
use crate::wire::proto::{Sealed, SnapshotPart};
use crate::wire::{End, Header, node_bytes, refusal_name, seal, unseal};

/// Room for everything around the entries of an append.
const SLACK: usize = 4 << 10;
const SNAPSHOT_PART: usize = 256 << 10;

/// What all connections of this node share.
pub(crate) struct Links {
    pub(crate) me: End,
    pub(crate) group: watch::Receiver<Option<GroupId>>,
    pub(crate) peers: Peers,
    pub(crate) message_bytes: usize,
    pub(crate) backoff: Duration,
    pub(crate) snapshot_within: Duration,
    pub(crate) metrics: Arc<Metrics>,
    /// The limits that the group was made with; set once it is known.
    pub(crate) state_limits: OnceLock<Limits>,
    /// Who answers, and who does not.
    pub(crate) silence: Silence,
    /// Set once Raft runs.
    pub(crate) standing: OnceLock<watch::Receiver<Standing>>,
}

impl Links {
    /// The header of a message to a member; an error while this node has no group.
    pub(crate) fn header(&self, node: NodeId, member: &Member) -> Result<Header, Status> {
        let group = *self.group.borrow();
        let group = group
            .ok_or_else(|| Status::failed_precondition("this node has joined no group yet"))?;
        Ok(Header { group, sender: self.me, receiver: End { node, disk: member.disk } })
    }
}

/// Makes a [`Line`] to whichever member Raft asks for.
pub(crate) struct Network(pub(crate) Arc<Links>);

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Line;

    async fn new_client(&mut self, target: NodeId, node: &Member) -> Line {
        let entries = Arc::new(AtomicU64::new(u64::MAX));
        Line { links: Arc::clone(&self.0), target, member: node.clone(), entries }
    }
}

/// The line to one member.
pub(crate) struct Line {
    links: Arc<Links>,
    target: NodeId,
    member: Member,
    /// How many entries one append may carry at the moment.
    entries: Arc<AtomicU64>,
}

/// An append on its way. Raft gives it up after a heartbeat and would send the same again; over a
/// slow line, or to a slow disk, it would never arrive. So each one that is given up halves what
/// the next may carry, and each answer doubles it.
struct Sent {
    entries: Arc<AtomicU64>,
    count: u64,
    answered: bool,
}

impl Drop for Sent {
    fn drop(&mut self) {
        let allowed = self.entries.load(Ordering::Relaxed);
        let next = match self.answered {
            true => allowed.saturating_mul(2),
            false if self.count > 0 => (self.count / 2).max(1),
            false => allowed,
        };
        self.entries.store(next, Ordering::Relaxed);
    }
}

impl Line {
    fn sealed(&self, sealed: Bytes) -> Result<Sealed, Status> {
        let header = self.links.header(self.target, &self.member)?;
        Ok(Sealed { header: Some(header.to_wire()), sealed, silent: Vec::new() })
    }

    /// A member that has no group yet is told of it; the next try then reaches it. True if it was
    /// told.
    async fn welcome_if_new(&self, status: &Status, within: Duration) -> bool {
        if refusal_name(status) != Some("no_group") {
            return false;
        }
        let told = async {
            let limits = self.links.state_limits.get();
            let limits =
                limits.ok_or_else(|| Status::internal("the group's limits are not known"))?;
            let message = self.sealed(seal(limits)?)?;
            let call = |mut client: Client| async move { client.welcome(message).await };
            self.links.peers.call(Lane::Raft, &self.member.address, within, call).await
        };
        let told = told.await;
        if let Err(status) = &told {
            tracing::warn!(target = %self.target, %status, "a new member could not be welcomed");
        }
        told.is_ok()
    }

    fn failed<E: std::error::Error>(&self, status: &Status) -> RPCError<NodeId, Member, E> {
        if let Some(name) = refusal_name(status) {
            tracing::debug!(target = %self.target, name, "a member refuses: {}", status.message());
        }
        let error = AnyError::error(format!("{}: {status}", self.member.address));
        match status.code() {
            Code::DeadlineExceeded | Code::Cancelled => {
                RPCError::Network(NetworkError::new(&error))
            }
            _ => RPCError::Unreachable(Unreachable::new(&error)),
        }
    }
}

fn unreadable(error: impl std::fmt::Display) -> Status {
    Status::internal(format!("the answer cannot be read: {error}"))
}

type RpcError = RPCError<NodeId, Member, RaftError<NodeId>>;

impl RaftNetwork<TypeConfig> for Line {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RpcError> {
        let sealed = seal(&rpc).map_err(|error| self.failed(&unreadable(error)))?;
        let entries = rpc.entries.len() as u64;
        let allowed = self.entries.load(Ordering::Relaxed);
        if entries > allowed {
            return Err(PayloadTooLarge::new_entries_hint(allowed).into());
        }
        if sealed.len() + SLACK > self.links.message_bytes && entries > 1 {
            return Err(PayloadTooLarge::new_entries_hint((entries / 2).max(1)).into());
        }
        let mut message = self.sealed(sealed).map_err(|status| self.failed(&status))?;
        message.silent =
            self.links.silence.watch().borrow().iter().map(|node| node_bytes(*node)).collect();
        let within = option.hard_ttl();
        let began = tokio::time::Instant::now();
        let mut sent = Sent { entries: Arc::clone(&self.entries), count: entries, answered: false };
        let call = |mut client: Client| async move { client.append(message).await };
        let reply = self.links.peers.call(Lane::Raft, &self.member.address, within, call).await;
        // A line that is down says nothing about how much it carries.
        let late = |status: &Status| status.code() == Code::DeadlineExceeded;
        sent.answered = !reply.as_ref().is_err_and(late);
        drop(sent);
        match &reply {
            Ok(_) => self.links.silence.heard(self.target),
            Err(status) => {
                if self.links.peers.was_refused(&self.member.address, began) {
                    self.links.silence.refused(self.target);
                }
                self.welcome_if_new(status, within).await;
            }
        }
        reply
            .and_then(|reply| unseal(&reply.sealed).map_err(unreadable))
            .map_err(|status| self.failed(&status))
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RpcError> {
        let standing = self.links.standing.get();
        let membership = standing.and_then(|standing| *standing.borrow().membership.log_id());
        let sealed =
            seal(&Ballot { rpc, membership }).map_err(|error| self.failed(&unreadable(error)))?;
        let message = self.sealed(sealed).map_err(|status| self.failed(&status))?;
        let within = option.hard_ttl();
        let again = message.clone();
        let call = |mut client: Client| async move { client.vote(message).await };
        let mut reply = self.links.peers.call(Lane::Raft, &self.member.address, within, call).await;
        // Nobody repeats a vote, and the first one of a new group meets members that do not know it
        // yet.
        if let Err(status) = &reply
            && self.welcome_if_new(status, within).await
        {
            let call = |mut client: Client| async move { client.vote(again).await };
            reply = self.links.peers.call(Lane::Raft, &self.member.address, within, call).await;
        }
        reply
            .and_then(|reply| unseal(&reply.sealed).map_err(unreadable))
            .map_err(|status| self.failed(&status))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let unreachable = |status: Status| {
            let error = AnyError::error(format!("{}: {status}", self.member.address));
            StreamingError::Unreachable(Unreachable::new(&error))
        };
        let header = self.links.header(self.target, &self.member).map_err(unreachable)?;
        let bytes = Bytes::from_owner(Whole(*snapshot.snapshot));
        let head = SnapshotHead { vote, meta: snapshot.meta, bytes: bytes.len() as u64 };
        let sealed = seal(&head).map_err(|error| unreachable(unreadable(error)))?;
        let parts = parts(header, sealed, bytes);
        let call =
            |mut client: Client| async move { client.snapshot(tokio_stream::iter(parts)).await };
        let within = self.links.snapshot_within;
        let sending = self.links.peers.call(Lane::Bulk, &self.member.address, within, call);
        let reply = tokio::select! {
            biased;
            closed = cancel => return Err(StreamingError::Closed(closed)),
            reply = sending => reply,
        };
        if let Err(status) = &reply {
            self.welcome_if_new(status, self.links.backoff).await;
        }
        let response = reply
            .and_then(|reply| unseal(&reply.sealed).map_err(unreadable))
            .map_err(unreachable)?;
        self.links.metrics.snapshots_sent.add(1);
        Ok(response)
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.links.backoff))
    }
}

struct Whole(SnapshotBytes);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

/// Cuts a snapshot into messages. Nothing is copied.
fn parts(header: Header, sealed: Bytes, mut bytes: Bytes) -> impl Iterator<Item = SnapshotPart> {
    let first = bytes.split_to(bytes.len().min(SNAPSHOT_PART));
    let mut head = Some(SnapshotPart {
        header: Some(header.to_wire()),
        sealed,
        last: bytes.is_empty(),
        bytes: first,
    });
    std::iter::from_fn(move || {
        if let Some(head) = head.take() {
            return Some(head);
        }
        if bytes.is_empty() {
            return None;
        }
        let part = bytes.split_to(bytes.len().min(SNAPSHOT_PART));
        Some(SnapshotPart {
            header: None,
            sealed: Bytes::new(),
            last: bytes.is_empty(),
            bytes: part,
        })
    })
}
