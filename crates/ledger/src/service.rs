//! What this node answers on the wire. Every message is checked before it reaches Raft or the disk.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fence::NodeId;
use futures_util::{Stream, TryStreamExt};
use openraft::Snapshot;
use openraft::raft::AppendEntriesResponse;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use crate::answer::{Answer, ReadError};
use crate::core::Core;
use crate::election::{Candidate, Judge, No};
use crate::messages::{self, Ballot};
use crate::node::Node;
use crate::parts::{blob_ref, next, not_stored, parts_of_file};
use crate::transport::Peer;
use crate::types::SnapshotBytes;
use crate::wire::proto::ledger_server::Ledger;
use crate::wire::proto::{
    BarrierReply, BarrierRequest, BlobPart, ChangeMembersReply, ChangeMembersRequest,
    GetBlobRequest, HelloReply, HelloRequest, MemberStatus, PreVoteReply, PreVoteRequest,
    ProposeReply, ProposeRequest, PutBlobReply, Sealed, SnapshotPart, StatusReply, StatusRequest,
    SubmitReply, SubmitRequest, WelcomeReply,
};
use crate::wire::{Header, Refusal, WIRE_VERSION, node_bytes, seal};

/// What one blob takes in memory while it comes: the window of its stream, and a part of it.
const BLOB_ON_ITS_WAY: u64 = 5 << 20;

pub(crate) struct Service(pub(crate) Arc<Core>);

impl Service {
    /// Counts a refusal on its way out.
    fn refuse(&self, refusal: Refusal) -> Status {
        self.0.metrics.refusals.add(refusal.name());
        tracing::debug!(node = %self.0.me.node, "{refusal}");
        refusal.into()
    }

    /// What a message says of its sender must agree with the certificate that it came under.
    fn header(
        &self,
        peer: Option<NodeId>,
        header: Option<crate::wire::proto::Header>,
    ) -> Result<Header, Status> {
        let header = Header::from_wire(header).map_err(|refusal| self.refuse(refusal))?;
        match peer {
            Some(certified) if certified != header.sender.node => {
                let claimed = header.sender.node;
                Err(self.refuse(Refusal::ForeignSender { claimed, certified }))
            }
            _ => Ok(header),
        }
    }

    /// For calls without a header: whoever has a certificate must be a member. One that was removed
    /// is none any more.
    fn member(&self, peer: Option<NodeId>) -> Result<(), Status> {
        match peer {
            Some(node) if self.0.standing.borrow().member(node).is_none() => {
                Err(self.refuse(Refusal::NotAMember(node)))
            }
            _ => Ok(()),
        }
    }

    fn sealed<T: serde::Serialize>(&self, value: &T) -> Result<Bytes, Status> {
        seal(value).map_err(|refusal| self.refuse(refusal))
    }

    fn within(&self, ms: u64) -> Duration {
        self.0.at_most(Duration::from_millis(ms))
    }

    fn judge(&self, header: &Header) -> Judge {
        let standing = self.0.standing();
        Judge {
            node: self.0.me.node,
            asking: self.0.asking.load(Ordering::Relaxed),
            leader_alive: self.0.leader_alive(),
            last_log: self.0.raft.data_metrics().borrow().last_log,
            membership: *standing.membership.log_id(),
            voters_digest: standing.voters_digest(),
            blank: standing.configs().is_empty(),
            admitted: self
                .0
                .disk_of(header.sender.node)
                .filter(|_| standing.is_voter(header.sender.node)),
            fit: self.0.failure().is_none(),
        }
    }
}

/// Who calls, as the certificate says; `None` where there are none.
fn peer<T>(request: &Request<T>) -> Option<NodeId> {
    request.extensions().get::<Peer>().and_then(|peer| peer.0)
}

/// Bytes on their way back, which need no header.
fn answer(sealed: Bytes) -> Sealed {
    Sealed { sealed, ..Sealed::default() }
}

fn raft_stopped(error: impl std::fmt::Display) -> Status {
    Refusal::Stopped(error.to_string()).into()
}

#[tonic::async_trait]
impl Ledger for Service {
    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let HelloRequest { peers_digest } = request.into_inner();
        let mine = self.0.peers_digest;
        if peers_digest != 0 && mine != 0 && peers_digest != mine {
            tracing::warn!("a node with another list of peers has said hello");
        }
        let initialised = self.0.raft.is_initialized().await.map_err(raft_stopped)?;
        Ok(Response::new(identity(&self.0, initialised)))
    }

    async fn welcome(&self, request: Request<Sealed>) -> Result<Response<WelcomeReply>, Status> {
        let peer = peer(&request);
        let Sealed { header, sealed, .. } = request.into_inner();
        let header = self.header(peer, header)?;
        let limits = messages::limits(&sealed).map_err(|refusal| self.refuse(refusal))?;
        match self.0.check(&header) {
            Ok(()) => {}
            Err(Refusal::NoGroup) => {
                let joined = self.0.adopt(header.group, limits).await;
                joined.map_err(|refusal| self.refuse(refusal))?;
            }
            Err(refusal) => return Err(self.refuse(refusal)),
        }
        Ok(Response::new(WelcomeReply {}))
    }

    async fn append(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let peer = peer(&request);
        let Sealed { header, sealed, silent } = request.into_inner();
        let header = self.header(peer, header)?;
        self.0.check(&header).map_err(|refusal| self.refuse(refusal))?;
        let rpc = messages::append(&sealed).map_err(|refusal| self.refuse(refusal))?;
        // Before Raft has come to it: its disk may take longer than the leader waits for the
        // answer, and a leader that is heard all the time and answered too late is no reason for an
        // election.
        if rpc.vote >= self.0.standing.borrow().vote {
            self.0.note_heard();
            self.0.links.silence.heard(header.sender.node);
            self.0.links.silence.reported(&silent);
        }
        let result = self.0.raft.append_entries(rpc).await.map_err(raft_stopped)?;
        if !matches!(result, AppendEntriesResponse::HigherVote(_)) {
            self.0.note_heard();
        }
        Ok(Response::new(answer(self.sealed(&result)?)))
    }

    async fn vote(&self, request: Request<Sealed>) -> Result<Response<Sealed>, Status> {
        let peer = peer(&request);
        let Sealed { header, sealed, .. } = request.into_inner();
        let header = self.header(peer, header)?;
        self.0.check(&header).map_err(|refusal| self.refuse(refusal))?;
        let Ballot { rpc, membership } =
            messages::ballot(&sealed).map_err(|refusal| self.refuse(refusal))?;
        // One that stands at a later membership than this node knows may have been admitted by it.
        let mine = *self.0.standing().membership.log_id();
        if mine.is_some() && membership <= mine {
            self.0.check_member(&header).map_err(|refusal| self.refuse(refusal))?;
        }
        let result = self.0.raft.vote(rpc).await.map_err(raft_stopped)?;
        if result.vote_granted {
            self.0.note_promised(true);
        }
        Ok(Response::new(answer(self.sealed(&result)?)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<SnapshotPart>>,
    ) -> Result<Response<Sealed>, Status> {
        let peer = peer(&request);
        let mut parts = request.into_inner();
        let silence = self.0.timing.request;
        let first = next(&mut parts, silence).await?;
        let first = first.ok_or_else(|| self.refuse(Refusal::Malformed("no parts".to_owned())))?;
        let header = self.header(peer, first.header)?;
        self.0.check(&header).map_err(|refusal| self.refuse(refusal))?;
        let head =
            messages::snapshot_head(&first.sealed).map_err(|refusal| self.refuse(refusal))?;
        let limit = self.0.config.limits.snapshot_bytes;
        if head.bytes > limit as u64 {
            let bytes = head.bytes as usize;
            return Err(self.refuse(Refusal::TooLarge { bytes, limit }));
        }
        let _room = self.0.room(head.bytes).await?;
        // A leader that still sends is alive; one of the past is not.
        let live = head.vote >= self.0.standing.borrow().vote;
        let mut bytes = Vec::with_capacity((head.bytes as usize).min(16 << 20));
        bytes.extend_from_slice(&first.bytes);
        let mut last = first.last;
        while !last {
            let part = next(&mut parts, silence).await?.ok_or_else(|| {
                self.refuse(Refusal::Malformed("the snapshot ends in the middle".to_owned()))
            })?;
            bytes.extend_from_slice(&part.bytes);
            last = part.last;
            if bytes.len() as u64 > head.bytes {
                break;
            }
            if live {
                self.0.note_heard();
            }
        }
        if bytes.len() as u64 != head.bytes {
            let what =
                format!("a snapshot of {} bytes, announced were {}", bytes.len(), head.bytes);
            return Err(self.refuse(Refusal::Malformed(what)));
        }
        let snapshot = Box::new(SnapshotBytes(Arc::new(bytes)));
        // A bad one must cost a message, not the node.
        if let Err(error) = self.0.storage.check_snapshot(&snapshot) {
            return Err(self.refuse(Refusal::Malformed(error.to_string())));
        }
        let snapshot = Snapshot { meta: head.meta, snapshot };
        let installing = self.0.raft.install_full_snapshot(head.vote, snapshot);
        let result = installing.await.map_err(raft_stopped)?;
        if result.vote == head.vote {
            self.0.note_heard();
            self.0.metrics.snapshots_taken.add(1);
        }
        Ok(Response::new(answer(self.sealed(&result)?)))
    }

    async fn pre_vote(
        &self,
        request: Request<PreVoteRequest>,
    ) -> Result<Response<PreVoteReply>, Status> {
        let peer = peer(&request);
        let PreVoteRequest { header, sealed, voters_digest } = request.into_inner();
        let header = self.header(peer, header)?;
        match self.0.check(&header) {
            Ok(()) => {}
            // The first election of a new group: nobody but its founder knows the group yet.
            Err(Refusal::NoGroup) => {}
            Err(refusal) => return Err(self.refuse(refusal)),
        }
        let (last_log, membership) =
            messages::pre_vote(&sealed).map_err(|refusal| self.refuse(refusal))?;
        let candidate = Candidate {
            node: header.sender.node,
            disk: header.sender.disk,
            last_log,
            membership,
            voters_digest,
        };
        let answer = self.judge(&header).answer(&candidate);
        match answer {
            Ok(()) => self.0.note_promised(false),
            Err(no) => self.0.metrics.pre_votes_refused.add(no.name()),
        }
        let reason = answer.err().map_or("", No::name).to_owned();
        Ok(Response::new(PreVoteReply { granted: answer.is_ok(), reason }))
    }

    async fn propose(
        &self,
        request: Request<ProposeRequest>,
    ) -> Result<Response<ProposeReply>, Status> {
        let peer = peer(&request);
        let ProposeRequest { header, sealed, within_ms } = request.into_inner();
        let header = self.header(peer, header)?;
        self.0
            .check(&header)
            .and_then(|()| self.0.check_member(&header))
            .map_err(|refusal| self.refuse(refusal))?;
        let proposal = messages::proposal(&sealed).map_err(|refusal| self.refuse(refusal))?;
        if proposal.request.session.node != header.sender.node {
            let what = "a proposal in the name of another node".to_owned();
            return Err(self.refuse(Refusal::Malformed(what)));
        }
        self.0.links.silence.heard(header.sender.node);
        self.0.merge(proposal.at);
        self.0.metrics.forwards_taken.add(1);
        let deadline = Instant::now() + self.within(within_ms);
        let answer: Answer = self.0.take(proposal, deadline).await;
        Ok(Response::new(ProposeReply { sealed: self.sealed(&answer)? }))
    }

    async fn barrier(
        &self,
        request: Request<BarrierRequest>,
    ) -> Result<Response<BarrierReply>, Status> {
        let peer = peer(&request);
        let BarrierRequest { header, within_ms } = request.into_inner();
        let header = self.header(peer, header)?;
        self.0
            .check(&header)
            .and_then(|()| self.0.check_member(&header))
            .map_err(|refusal| self.refuse(refusal))?;
        self.0.links.silence.heard(header.sender.node);
        let deadline = Instant::now() + self.within(within_ms);
        Ok(Response::new(match crate::reads::confirm(&self.0, deadline).await {
            Ok(index) => BarrierReply { index, refused: String::new() },
            Err(error) => {
                let refused = match error {
                    ReadError::NoQuorum | ReadError::Deadline => "no_quorum",
                    _ => "not_leader",
                };
                BarrierReply { index: 0, refused: refused.to_owned() }
            }
        }))
    }

    async fn put_blob(
        &self,
        request: Request<Streaming<BlobPart>>,
    ) -> Result<Response<PutBlobReply>, Status> {
        let peer = peer(&request);
        let mut parts = request.into_inner();
        let silence = self.0.timing.request;
        let first = next(&mut parts, silence).await?;
        let first = first.ok_or_else(|| self.refuse(Refusal::Malformed("no parts".to_owned())))?;
        let header = self.header(peer, first.header.clone())?;
        self.0
            .check(&header)
            .and_then(|()| self.0.check_member(&header))
            .map_err(|refusal| self.refuse(refusal))?;
        let limit = self.0.config.limits.blob_bytes;
        let blob = blob_ref(&first.hash, first.size).map_err(|refusal| self.refuse(refusal))?;
        if blob.bytes > limit as u64 {
            let bytes = usize::try_from(blob.bytes).unwrap_or(usize::MAX);
            return Err(self.refuse(Refusal::TooLarge { bytes, limit }));
        }
        // Part by part to the disk: what is on its way is in memory, and no more.
        let _room = self.0.room(BLOB_ON_ITS_WAY).await?;
        let mut writer = self.0.blobs.begin(blob).await.map_err(|error| not_stored(&error))?;
        writer.write(first.bytes).await.map_err(|error| not_stored(&error))?;
        while let Some(part) = next(&mut parts, silence).await? {
            writer.write(part.bytes).await.map_err(|error| not_stored(&error))?;
        }
        writer.finish().await.map_err(|error| not_stored(&error))?;
        Ok(Response::new(PutBlobReply {}))
    }

    type GetBlobStream = Pin<Box<dyn Stream<Item = Result<BlobPart, Status>> + Send>>;

    async fn get_blob(
        &self,
        request: Request<GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let peer = peer(&request);
        let GetBlobRequest { header, hash, size } = request.into_inner();
        let header = self.header(peer, header)?;
        self.0
            .check(&header)
            .and_then(|()| self.0.check_member(&header))
            .map_err(|refusal| self.refuse(refusal))?;
        let blob = blob_ref(&hash, size).map_err(|refusal| self.refuse(refusal))?;
        let reader = self.0.blobs.reader(&blob).await;
        let reader = reader.map_err(|error| Status::not_found(error.to_string()))?;
        let parts = parts_of_file(None, reader);
        Ok(Response::new(Box::pin(parts.map_err(|error| Status::data_loss(error.to_string())))))
    }

    async fn change_members(
        &self,
        request: Request<ChangeMembersRequest>,
    ) -> Result<Response<ChangeMembersReply>, Status> {
        self.member(peer(&request))?;
        let request = request.into_inner();
        let forwarded = request.forwarded;
        let within = Duration::from_millis(request.within_ms).min(self.0.timing.snapshot);
        let change =
            crate::members::Change::from_wire(request).map_err(|refusal| self.refuse(refusal))?;
        let changed = crate::members::change(&self.0, change, within, !forwarded).await;
        Ok(Response::new(ChangeMembersReply { sealed: self.sealed(&changed)? }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let standing = self.0.standing();
        let initialised = standing.membership.log_id().is_some();
        let members = standing.membership.membership().nodes().map(|(id, member)| MemberStatus {
            node: node_bytes(*id),
            address: member.address.clone(),
            disk: member.disk.0,
            voter: standing.is_voter(*id),
        });
        let leader = standing.leader.as_ref();
        Ok(Response::new(StatusReply {
            identity: Some(identity(&self.0, initialised)),
            term: standing.vote.leader_id().get_term(),
            leader: leader.map(|(id, _)| node_bytes(*id)).unwrap_or_default(),
            leader_address: leader.map(|(_, member)| member.address.clone()).unwrap_or_default(),
            leads: self.0.claims(),
            applied: self.0.applied.index().unwrap_or(0),
            last_log: standing.last_log.unwrap_or(0),
            members: members.collect(),
            failed: self.0.failure().unwrap_or_default(),
        }))
    }

    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        self.member(peer(&request))?;
        let SubmitRequest { sealed, within_ms } = request.into_inner();
        let job = messages::job(&sealed).map_err(|refusal| self.refuse(refusal))?;
        self.0.serving().map_err(|refusal| self.refuse(refusal))?;
        let node = Node::of(Arc::clone(&self.0));
        let submission = node.submit(job, self.within(within_ms)).await;
        Ok(Response::new(SubmitReply { sealed: self.sealed(&submission)? }))
    }
}

pub(crate) fn identity(core: &Core, initialised: bool) -> HelloReply {
    let group = core.group();
    HelloReply {
        node: node_bytes(core.me.node),
        boot: core.session.boot.0,
        disk: core.me.disk.0,
        cluster: group.map(|group| group.cluster),
        generation: group.map_or(0, |group| group.generation),
        initialised,
        peers_digest: core.peers_digest,
        wire_version: u32::from(WIRE_VERSION),
        software: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
