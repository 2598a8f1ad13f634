//! What an owner is told and what it asks for: plain data.

use std::time::Duration;

use fence::{Attempt, BootId, NodeId, ShardKey};
use serde::{Deserialize, Serialize};
use stats::{DropCause, LastWords, Outcome, StopReason, WorkflowStatus};

use super::shard::Transition;
use crate::message::{Steer, WorkerReport, WorkerRequest, WorkerResponse};
use crate::pool::Worker;
use ledger_state::{BlobRef, Command, Counters, Reply};

/// What happened. Everything may come late, twice, or for something that is over; then it does
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The ledger's answer to a commit, refusals among them.
    Committed {
        tag: u64,
        reply: Reply,
    },
    /// Nobody knows yet whether it was committed. The shell goes on asking under the same request
    /// until it is known.
    Unknown {
        tag: u64,
    },
    /// A worker's answer, and how long it took.
    Answered {
        tag: u64,
        answer: WorkerResponse,
        took: Duration,
    },
    /// No answer within the shell's patience: it may have been done or not.
    Unanswered {
        tag: u64,
        why: NoAnswer,
    },
    Reported(WorkerReport),
    /// What an attempt has counted so far, by the frames that were applied.
    Progress {
        shard: ShardKey,
        attempt: Attempt,
        counters: Counters,
        /// The job's clock up to which the attempt has told; what arrives late tells of a time that
        /// is past.
        told: Duration,
    },
    /// A blob is fsynced on a majority (R17a).
    Stored {
        tag: u64,
    },
    Fetched {
        tag: u64,
        content: Vec<u8>,
    },
    /// The answer to [`Effect::Seal`]: what the owner has of an attempt that can say nothing more
    /// itself.
    Sealed {
        shard: ShardKey,
        attempt: Attempt,
        counters: Counters,
        frames: u64,
        totals: Vec<u8>,
    },
    /// All workers, as membership and heartbeats have them now.
    Workers(Vec<Worker>),
    /// A manager has renewed the leases of these attempts.
    Renewed {
        worker: NodeId,
        boot: BootId,
        attempts: Vec<(ShardKey, Attempt)>,
    },
    /// The ledger's time, as it was last read. It may be behind what has passed, never ahead.
    LedgerTime {
        now_ms: u64,
    },
    /// Whether this job may try to reserve its first cores (see [`crate::queue`]).
    Turn(bool),
    /// A threshold with `abort` has failed on the merged data (R18).
    Threshold {
        number: usize,
        reason: String,
    },
    /// The ledger holds a cancel of this job. Said again when it has become a hard one.
    CancelSeen {
        reason: String,
        hard: bool,
        /// From now until its deadline for teardowns.
        within: Duration,
    },
    /// Live control by a client, who gets the answer to `asked`.
    Steer {
        asked: u64,
        steer: Steer,
    },
    /// The final result is stored; `None`: it could not be made.
    Concluded {
        result: Option<BlobRef>,
    },
    /// It is [`super::Owner::wake`] or later.
    Tick,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection was refused: the machine, or a firewall before it, says that nobody listens
    /// at the address.
    Refused,
    /// Nothing came in time, or there is no way there.
    Silent,
    /// Nobody was asked.
    NotAsked,
}

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Propose, and answer with [`Event::Committed`] or [`Event::Unknown`].
    Commit { tag: u64, command: Command },
    /// Send, and answer with [`Event::Answered`] or [`Event::Unanswered`].
    Call { tag: u64, worker: NodeId, request: WorkerRequest },
    /// Ask whether a worker is there: at once, directly and through another manager, for a second.
    /// Answered as an ask.
    Probe { tag: u64, worker: NodeId, request: WorkerRequest },
    /// Fsync on a majority, and answer with [`Event::Stored`]. Goes on until it is done.
    Store { tag: u64, blob: BlobRef, content: Vec<u8> },
    /// Answer with [`Event::Fetched`]. Goes on until it is done.
    Fetch { tag: u64, blob: BlobRef },
    /// Close the statistics of an attempt, and answer with [`Event::Sealed`]. `may_have_run`: it
    /// may have sent something, also if nothing was ever heard of it.
    Seal { shard: ShardKey, attempt: Attempt, may_have_run: bool },
    /// It is certain that this attempt never ran: nothing is missing of it in the statistics.
    NeverRan { shard: ShardKey, attempt: Attempt },
    /// Units of its schedule that were begun under this attempt, or may have been, and that nobody
    /// has counted: dropped, `worker_lost`. Said again with a higher count if more is known.
    Lost { shard: ShardKey, attempt: Attempt, count: u64 },
    /// For watchers.
    Moved(Transition),
    /// For watchers and for the timeline.
    Noted(Note),
    /// Why nothing runs at the moment; `None`: it goes on.
    Queued(Option<Queued>),
    /// It is written down, and these shards' workers have not heard of it yet: none, or those that
    /// did not answer in time. An error: it is not written down.
    Steered { asked: u64, result: Result<Vec<ShardKey>, String> },
    /// Make the final result of it and of the merged statistics, store it, and answer with
    /// [`Event::Concluded`].
    Conclude(Box<Conclusion>),
    /// The outcome is committed: this owner has nothing more to do.
    Finished { outcome: ledger_state::Outcome },
    /// Somebody else owns the job by now. Nothing was done about it here, and nothing will be.
    Deposed { why: String },
}

/// An entry of the timeline (R19). Times are since the job was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: Duration,
    pub text: String,
    /// Load that the plan asked for and nobody generated; a reason for the verdict.
    pub gap: Option<Gap>,
}

/// A share of a workflow's load that was missing for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub workflow: usize,
    pub shard: u32,
    /// The one that was lost.
    pub attempt: Attempt,
    pub worker: NodeId,
    pub from: Duration,
    pub to: Duration,
    /// Of so many shards.
    pub shards: u32,
    pub of: u32,
    pub mended: Mended,
}

/// How a gap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mended {
    /// On a core of its own.
    Elsewhere,
    /// On a core that another shard of the workflow has too (R14).
    Shared,
    /// By policy, or because there was no way: missing until the end.
    Never,
}

/// Whether what a job waits for is told with the numbers of cores, or has to be completed by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// The reason says them.
    InReason,
    /// The reason is without them.
    Apart,
}

/// Why a job waits, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    pub needs: u32,
    pub free: u32,
    pub total: u32,
    pub why: String,
    pub numbers: Numbers,
}

/// What the final result needs of the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    pub outcome: Outcome,
    pub stop: StopReason,
    /// One line on why, for people.
    pub detail: String,
    /// Since the job was created: when its first load began, and now.
    pub began: Option<Duration>,
    pub ended: Duration,
    pub workflows: Vec<Conclusive>,
    pub setup_error: Option<String>,
    pub teardown_error: Option<String>,
    pub timeline: Vec<Note>,
    /// What workers told of requests, and whose final report the owner wrote: what those issued
    /// beyond it is not known.
    pub last_words: LastWords,
    /// Attempts whose totals were too large to keep.
    pub cut: Vec<(ShardKey, Attempt)>,
    /// Units of the schedule that nobody has run, and nobody will.
    pub unrun: Vec<Unrun>,
}

/// What is left of a shard's schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrun {
    pub shard: ShardKey,
    /// Its last one.
    pub attempt: Attempt,
    pub count: u64,
    /// Why nobody has run it.
    pub cause: DropCause,
}

/// How one workflow came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusive {
    pub name: String,
    pub status: WorkflowStatus,
    /// Since the job was created; both zero if it never began.
    pub started: Duration,
    pub ended: Duration,
    pub shards: u32,
    /// Attempts beyond the first of each shard, without those that followed a loss that proved
    /// false.
    pub retries: u32,
}
