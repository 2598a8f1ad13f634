//! What can be proposed to the ledger.
//!
//! **Append only.** These types are stored in logs and snapshots as postcard, which knows enum
//! variants and struct fields by their place alone. A new variant goes to the end of its enum;
//! nothing is reordered or removed; a new field needs a new variant. `tests/ledger/golden.rs` pins
//! the bytes of each command, so that an accident fails there.

use std::fmt;

use fence::{Attempt, BootId, Epoch, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use serde::{Deserialize, Serialize};

use super::key::IdempotencyKey;
use crate::Steer;

/// Who proposes: one life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    pub node: NodeId,
    pub boot: BootId,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} start {}", self.node, self.boot)
    }
}

/// One logical request. A retry keeps it, so that the ledger can tell a retry from a second wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    pub session: SessionId,
    /// From 1, rising by one per logical request. `OpenSession` is idempotent by itself and may use
    /// any number.
    pub seq: u64,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} request {}", self.session, self.seq)
    }
}

/// A command on its way through the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    pub request: RequestId,
    /// Every answer up to this number was received; the ledger may forget them. Always below
    /// `request.seq`.
    pub settled: u64,
    /// For people and for causality; no decision is made by it.
    pub at: Hlc,
    pub command: Command,
}

/// What may happen only once, or only in order.
///
/// Commands with an `epoch` are an owner's: they are refused, and change nothing, unless it is the
/// job's current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The proposer's first word in this life. A higher start of the same node ends the session of
    /// the lower one.
    OpenSession,
    CreateJob(Box<CreateJob>),
    /// Compare and set: granted only if the job's last granted epoch is still the one that the
    /// claimant has seen (`None`: nobody has ever claimed it).
    ClaimJob {
        job: JobId,
        claimant: SessionId,
        seen: Option<Epoch>,
    },
    /// Gives the job up without a successor. Its epoch stays spent.
    ReleaseJob {
        job: JobId,
        epoch: Epoch,
    },
    /// Starts attempt `attempt` of a shard, and seals the attempt before it (R17).
    StartAttempt {
        shard: ShardKey,
        epoch: Epoch,
        attempt: Attempt,
        worker: NodeId,
        boot: BootId,
        after: LapseProof,
        terms: AttemptTerms,
    },
    /// The attempt may no longer be renewed (R4). Its counts are still welcome.
    RevokeAttempt {
        shard: ShardKey,
        epoch: Epoch,
        attempt: Attempt,
        reason: String,
        /// The job's age when the attempt was last heard of: since then its load may be missing
        /// (R27).
        heard_ms: Option<u64>,
        /// Its worker was taken for gone, by hints. If the attempt's own word shows that it was
        /// not, no retry is used.
        suspected: bool,
    },
    /// A worker's last word on an attempt. The word itself is not fenced (R3): the first one for
    /// (shard, attempt) is taken, later ones are repeats. An owner that passes it on is: a new
    /// owner goes by what the ledger had when it took over, and the worker says it again to that
    /// one. Where the owner has written an end itself, the worker's word becomes an addendum to it.
    EndAttempt {
        shard: ShardKey,
        /// The owner's that passes it on; none: the job has no owner any more.
        under: Option<Epoch>,
        attempt: Attempt,
        status: AttemptStatus,
        counters: Counters,
        result: Option<BlobRef>,
        /// The job's age when it sent its last request, if its worker has said so.
        sent_until_ms: Option<u64>,
        word: ReportedBy,
    },
    /// What a layer leaves to the next one. Layers come in order, from 0; the first commit of each
    /// is the one.
    CommitContext {
        job: JobId,
        epoch: Epoch,
        layer: u32,
        context: Payload,
    },
    /// Anybody may cancel. Only teardowns start afterwards, and the outcome will be CANCELLED
    /// (R28).
    ///
    /// The second cancel of a job is a hard one, whatever its grace: everything ends at once.
    CancelJob {
        job: JobId,
        reason: String,
        requestor: String,
        /// The same for every repeat of one wish, so that a repeated message is not taken for a
        /// second cancel.
        nonce: [u8; 16],
        /// How the job may end; `None`: at once.
        grace: Option<Grace>,
    },
    /// The job's outcome. The first one is final.
    FinishJob {
        job: JobId,
        epoch: Epoch,
        outcome: Outcome,
        detail: String,
    },
    /// Moves the ledger's time to `seen_ms + elapsed_ms`, if that is later than now.
    ///
    /// `seen_ms` is the ledger's time that the proposer has read, `elapsed_ms` what its monotonic
    /// clock has counted since. So two leaders that overlap cannot add their measurements up, and
    /// time never runs faster than the fastest clock.
    Advance {
        seen_ms: u64,
        elapsed_ms: u64,
    },
    /// Into how many shards each workflow of a batch is divided, before the first of them starts. A
    /// successor has to know, because a shard's share follows from their number (EXEC-66).
    Provision {
        job: JobId,
        epoch: Epoch,
        shards: Vec<(WorkflowNo, u32)>,
    },
    /// The load of these workflows begins: the zero of their schedule, by the ledger's time.
    BeginLoad {
        job: JobId,
        epoch: Epoch,
        workflows: Vec<WorkflowNo>,
    },
    /// Rows of a data set for one attempt and nobody else. The next `count` of them, as far as
    /// there are any below `of`. Rows that an attempt did not use are not given out again (R5a).
    GrantRows {
        shard: ShardKey,
        epoch: Epoch,
        attempt: Attempt,
        set: u32,
        count: u64,
        of: u64,
    },
    /// The owner ends the job early. What runs is stopped, and not retried by anybody afterwards.
    StopJob {
        job: JobId,
        epoch: Epoch,
        cause: StopCause,
        reason: String,
    },
    /// Live control, kept so that a successor knows it.
    SteerJob {
        job: JobId,
        epoch: Epoch,
        steer: Steer,
    },
    /// The job's time is longer by this much in all. Never shortened.
    ExtendJob {
        job: JobId,
        epoch: Epoch,
        total_ms: u64,
    },
    /// Where the final result lies. The first one is the one.
    RecordResult {
        job: JobId,
        epoch: Epoch,
        result: BlobRef,
    },
    /// Attempts whose load is a number of iterations may begin those below a higher end than before
    /// (R28). It counts once it is here, where every successor of the owner finds it.
    GrantUnits {
        job: JobId,
        epoch: Epoch,
        grants: Vec<UnitGrant>,
    },
    /// What all managers go by from now on (R25). What is not named stays as it is.
    SetLimits {
        lease_ms: Option<u64>,
        kept_ms: Option<u64>,
        retries: Option<u32>,
    },
    /// Forgets the oldest ended jobs, at most so many, whose keys need not be kept any more. Said
    /// by a leader whose disk is nearly full; otherwise they wait until their time is over.
    MakeRoom {
        jobs: u32,
    },
}

/// What an attempt is started with. Whoever owns the job later goes by it, not by its own settings
/// (R25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptTerms {
    /// L of its execution lease.
    pub lease_ms: u64,
    /// Units of its schedule that attempts before have begun, or may have: it does not begin them
    /// (R5a).
    pub units_before: u64,
    /// It may begin units below this; `None`: its load is not a number of iterations.
    pub units_end: Option<u64>,
}

/// How far one attempt may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitGrant {
    pub workflow: WorkflowNo,
    pub shard: u32,
    pub attempt: Attempt,
    pub end: u64,
}

/// How long a cancelled job may take to end, counted from the cancel in the ledger's time. The
/// ledger bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    /// What runs keeps its leases for so long: the plan's graceful stop, and time for an owner to
    /// say so.
    pub stop_ms: u64,
    /// Teardowns may start, and keep their leases, for so long.
    pub teardown_ms: u64,
    /// The number under which this job's setups and teardowns stand, the one after its last
    /// workflow. `None`: it has no teardown, or nobody could tell.
    pub hooks: Option<WorkflowNo>,
}

/// Why an owner ends a job early. A cancel is not among them: it has its own command, and anybody
/// may send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopCause {
    /// The plan's threshold of this number, with `abort`.
    Threshold(u32),
    /// A script.
    Aborted,
    /// Its time is over, or nothing moves any more.
    Timeout,
}

/// A submission, with the key that makes it the same one however often it arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateJob {
    /// The authenticated principal; keys of different tenants have nothing to do with each other.
    pub tenant: String,
    pub key: IdempotencyKey,
    /// SHA-256 of the canonical submission, made by the receiver. The same key with another one is
    /// refused.
    pub fingerprint: [u8; 32],
    pub name: String,
    pub plan: BlobRef,
    /// How long ago the client first tried, by its own monotonic clock. Whoever keeps a submission
    /// waiting adds the wait.
    pub age_ms: u64,
    /// Nobody is to run it: it ends as it is created, and goes when its time is over. For checking
    /// a ledger.
    pub rehearsal: bool,
}

/// Something large beside the log, fsynced on a majority before the entry that names it is proposed
/// (R17a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the content.
    pub hash: [u8; 32],
    pub bytes: u64,
}

/// Small things travel in the log, large ones beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    Inline(Vec<u8>),
    Blob(BlobRef),
}

/// Why it is safe to start an attempt: nothing else proves that the one before has stopped (R4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LapseProof {
    /// There was none before.
    First,
    /// The worker said that it has stopped.
    Stopped,
    /// The worker has started again since; this is its present start.
    HigherBoot(BootId),
    /// Its lease has run out, counted from when the revoke was seen committed.
    LeaseLapsed,
}

/// How an attempt ended, in its worker's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AttemptStatus {
    Completed,
    /// The workflow reported an error. Final: an error is not retried (R5).
    Failed,
    /// Told to stop, and did.
    Stopped,
    /// The worker died under it, or lost its lease; these are the counts that outlived it.
    Interrupted,
}

impl AttemptStatus {
    /// Whether the shard needs no other attempt.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

impl fmt::Display for AttemptStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Whose word the end of an attempt is, and what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReportedBy {
    /// Its worker's: these counts are all that it did. Or it is certain that it never ran.
    Whole,
    /// Its worker's, whose machine was restarted under it: what its files say may be older than its
    /// death.
    Partial,
    /// Its owner's, of a worker that was not heard again: it may have done more, and may still say
    /// so.
    Owner,
}

impl ReportedBy {
    /// What a worker says itself.
    #[must_use]
    pub fn of_worker(certain: bool) -> Self {
        if certain { Self::Whole } else { Self::Partial }
    }
}

/// How a job came out (R5). Separate from where it is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    Completed,
    Partial,
    Failed,
    Cancelled,
    Timeout,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "COMPLETED",
            Self::Partial => "PARTIAL",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Timeout => "TIMEOUT",
        })
    }
}

/// What an attempt has durably reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests begun; from the file that outlives the process.
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub iterations: u64,
    /// Iterations that were begun and cut off.
    pub interrupted: u64,
    /// Arrivals that were due and did not start.
    pub dropped: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Units of the schedule that were taken: arrivals, or iterations where those are counted. Of
    /// an attempt that was lost, how far it may have come. Nobody begins them again (R5a).
    pub begun: u64,
    /// Requests that were written to a connection, of those that are counted.
    pub sent: u64,
}

impl Counters {
    /// The higher of both, number by number: what is known of one attempt from two sources.
    #[must_use]
    pub fn at_least(mut self, other: &Self) -> Self {
        for (mine, known) in self.fields_mut().into_iter().zip(other.fields()) {
            *mine = known.max(*mine);
        }
        self
    }

    /// Adds, and stays at the top instead of going round; the sum is the same in any order.
    pub fn add(&mut self, other: &Self) {
        for (mine, more) in self.fields_mut().into_iter().zip(other.fields()) {
            *mine = mine.saturating_add(more);
        }
    }

    /// What this one has more than the other, number by number.
    #[must_use]
    pub fn beyond(mut self, other: &Self) -> Self {
        for (mine, known) in self.fields_mut().into_iter().zip(other.fields()) {
            *mine = mine.saturating_sub(known);
        }
        self
    }

    /// Units of the schedule of which it is known what became of them.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.iterations.saturating_add(self.interrupted).saturating_add(self.dropped)
    }

    /// Every number, in the order of the struct.
    #[must_use]
    pub fn fields(&self) -> [u64; 12] {
        let Self { issued, completed, failed, iterations, interrupted, dropped, .. } = *self;
        let Self { checks_passed, checks_failed, bytes_sent, bytes_received, begun, .. } = *self;
        [
            issued,
            completed,
            failed,
            iterations,
            interrupted,
            dropped,
            checks_passed,
            checks_failed,
            bytes_sent,
            bytes_received,
            begun,
            self.sent,
        ]
    }

    fn fields_mut(&mut self) -> [&mut u64; 12] {
        [
            &mut self.issued,
            &mut self.completed,
            &mut self.failed,
            &mut self.iterations,
            &mut self.interrupted,
            &mut self.dropped,
            &mut self.checks_passed,
            &mut self.checks_failed,
            &mut self.bytes_sent,
            &mut self.bytes_received,
            &mut self.begun,
            &mut self.sent,
        ]
    }
}
