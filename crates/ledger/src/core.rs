//! What the parts of a running node share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fence::{ClockSettings, GroupId, Hlc, HybridClock, NodeId, Receipt, Tick};
use ledger_state::{Command, Limits, Proposal, SessionId};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::answer::{Answer, NotCommitted};
use crate::blobs::Blobs;
use crate::config::{NodeConfig, Timing};
use crate::election::Event;
use crate::metrics::Metrics;
use crate::network::Links;
use crate::observer::Observer;
use crate::proposals::Queue;
use crate::requests::Requests;
use crate::standing::Standing;
use crate::store::{Applied, Storage};
use crate::timekeeper::LedgerClock;
use crate::types::{DiskId, Member, Raft, Vote};
use crate::wire::{End, Header, Refusal};

/// Rounded up.
pub(crate) fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

pub(crate) struct Core {
    pub(crate) me: End,
    pub(crate) session: SessionId,
    pub(crate) config: NodeConfig,
    /// The times of the config, scaled.
    pub(crate) timing: Timing,
    pub(crate) peers_digest: u64,
    pub(crate) storage: Arc<Storage>,
    pub(crate) applied: Arc<Applied>,
    pub(crate) blobs: Blobs,
    pub(crate) raft: Raft,
    pub(crate) links: Arc<Links>,
    pub(crate) group: watch::Sender<Option<GroupId>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) election: mpsc::Sender<Event>,
    /// This node asks for pre-votes at the moment.
    pub(crate) asking: AtomicBool,
    /// How much longer than the lease a leader counts as alive, because this node was not run in
    /// time.
    pub(crate) slack_ms: AtomicU64,
    /// When an append of a live leader was last taken.
    pub(crate) heard: Mutex<Option<Instant>>,
    pub(crate) queue: Queue,
    pub(crate) requests: Mutex<Requests>,
    pub(crate) session_open: tokio::sync::Mutex<bool>,
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) adopting: tokio::sync::Mutex<()>,
    pub(crate) clock: Mutex<HybridClock>,
    /// The ledger's time, as it goes on by this node's clock.
    pub(crate) time: Arc<LedgerClock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<dyn Observer>,
    /// Why this node has stopped serving.
    pub(crate) failed: watch::Sender<Option<String>>,
    pub(crate) stopping: watch::Sender<bool>,
    /// What stands between this node and a group.
    pub(crate) waiting: watch::Sender<Option<String>>,
    /// Room for snapshots and blobs that are being received, in kibibytes.
    pub(crate) incoming: Semaphore,
    /// The vote under which this node led when it was started, and the end of its log then.
    pub(crate) restarted_at: Option<(Vote, u64)>,
}

impl Core {
    pub(crate) fn clock(node: NodeId, floor: Hlc) -> HybridClock {
        let mut clock = HybridClock::start(node, 0, ClockSettings::default());
        // Stamps in the log are never issued twice; those that were only ever sent in messages are
        // not worth a disk write.
        clock.reserved(u64::MAX);
        clock.never_below(floor);
        clock
    }

    pub(crate) fn stamp(&self) -> Hlc {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        match clock.tick((self.config.wall_ms)()) {
            Tick::Stamp(stamp) => stamp,
            Tick::NeedsReservation(until) => {
                clock.reserved(until);
                Hlc { wall_ms: until, logical: 0, node: self.me.node }
            }
        }
    }

    /// Takes in the stamp of something that another node has sent.
    pub(crate) fn merge(&self, stamp: Hlc) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Receipt::TooFarAhead { sender, ahead_ms } =
            clock.receive(stamp, (self.config.wall_ms)())
        {
            self.metrics.clock_drift.add(1);
            tracing::warn!(%sender, ahead_ms, "a node's clock is far ahead; its stamp is not merged");
        }
    }

    pub(crate) fn group(&self) -> Option<GroupId> {
        *self.group.borrow()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// This node leads and has a majority.
    pub(crate) fn claims(&self) -> bool {
        self.standing.borrow().claims(Instant::now(), self.timing.election_max)
    }

    /// A leader other than this node was heard within the lease, or this node leads with a
    /// majority.
    pub(crate) fn leader_alive(&self) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let slack = Duration::from_millis(self.slack_ms.load(Ordering::Relaxed));
        let lease = self.timing.election_max + slack;
        self.claims() || heard.is_some_and(|heard| heard.elapsed() < lease)
    }

    pub(crate) fn note_heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        // If the queue is full, the driver has enough to wake up for, and looks at the same
        // instant.
        let _ = self.election.try_send(Event::Heard);
    }

    /// Another node was promised a pre-vote or a vote.
    pub(crate) fn note_promised(&self, vote: bool) {
        let _ = self.election.try_send(Event::Promised { vote });
    }

    pub(crate) fn requests(&self) -> std::sync::MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    /// Stops serving, for good. The first reason stands.
    pub(crate) fn fail(&self, why: &str) {
        let first = self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            if first {
                *failed = Some(why.to_owned());
            }
            first
        });
        if first {
            tracing::error!(node = %self.me.node, why, "the ledger node stops serving");
            let _ = self.election.try_send(Event::Unfit);
        }
    }

    pub(crate) fn serving(&self) -> Result<(), Refusal> {
        match self.failure() {
            Some(why) => Err(Refusal::Stopped(why)),
            None if *self.stopping.borrow() => Err(Refusal::Stopped("shutting down".to_owned())),
            None => Ok(()),
        }
    }

    /// A message for a member of a group: right group, right node, right disk.
    pub(crate) fn check(&self, header: &Header) -> Result<(), Refusal> {
        self.serving()?;
        header.check(self.me, self.group())
    }

    /// Joins the group that a member has named. The limits are the group's: members that applied
    /// the log under different ones would come to different states.
    pub(crate) async fn adopt(&self, group: GroupId, limits: Limits) -> Result<(), Refusal> {
        let _one = self.adopting.lock().await;
        if let Some(mine) = self.group() {
            let same = mine == group;
            return if same { Ok(()) } else { Err(Refusal::ForeignGroup { got: group, mine }) };
        }
        self.storage.set_group(group, limits).await.map_err(|error| {
            self.fail(&error.to_string());
            Refusal::Stopped(error.to_string())
        })?;
        tracing::info!(node = %self.me.node, %group, "joined a group");
        self.group.send_replace(Some(group));
        self.waiting.send_replace(None);
        Ok(())
    }

    /// The sender is a member, with the disk that was admitted.
    pub(crate) fn check_member(&self, header: &Header) -> Result<(), Refusal> {
        let standing = self.standing.borrow();
        let End { node, disk } = header.sender;
        match standing.member(node) {
            None => Err(Refusal::NotAMember(node)),
            Some(member) if member.disk != disk => {
                Err(Refusal::DiskNotAdmitted { node, got: disk, admitted: member.disk })
            }
            Some(_) => Ok(()),
        }
    }

    /// The other voters and learners.
    pub(crate) fn others(&self) -> Vec<(NodeId, Member)> {
        let standing = self.standing.borrow();
        let nodes = standing.membership.membership().nodes();
        nodes
            .filter(|(id, _)| **id != self.me.node)
            .map(|(id, member)| (*id, member.clone()))
            .collect()
    }

    pub(crate) fn disk_of(&self, node: NodeId) -> Option<DiskId> {
        self.standing.borrow().member(node).map(|member| member.disk)
    }

    /// Room to receive so many bytes; waits for it as long as for one call.
    pub(crate) async fn room(&self, bytes: u64) -> Result<SemaphorePermit<'_>, Status> {
        let room = self.incoming.acquire_many(kibibytes(bytes));
        match timeout(self.timing.request, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => {
                Err(Status::resource_exhausted("too much is being received at the moment"))
            }
        }
    }

    /// Takes a proposal into the log, if this node leads. A disk that is almost full takes no new
    /// jobs: what is left is for those that have begun, and for the snapshot that frees space.
    pub(crate) async fn take(&self, proposal: Proposal, deadline: Instant) -> Answer {
        if matches!(proposal.command, Command::CreateJob(_)) && self.storage.space_is_low() {
            return Answer::Not(NotCommitted::NoSpace);
        }
        self.queue.propose(proposal, deadline).await
    }

    /// At most the time for one call.
    pub(crate) fn at_most(&self, within: Duration) -> Duration {
        within.min(self.timing.request)
    }
}
