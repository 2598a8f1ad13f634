//! What happens to a worker and what it wants done: plain data.
//!
//! The shell carries effects out in their order, and each at once: those that take long (fetching,
//! preparing, sending, storing) are begun, and what came of them comes back as an event. Shutting a
//! gate is not among the long ones: it is one store to memory that the attempt's thread reads
//! before every send.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fence::{Attempt, Moment, NodeId, ShardKey};

use crate::message::{
    Dispatch, EndReport, Renewal, RowBlock, Steer, StopMode, WorkerRequest, WorkerResponse,
};
use crate::message::{RenewRequest, ReportAck, WorkerReport};
use ledger_state::{BlobRef, Counters};

/// One attempt at one shard: what everything here is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    pub shard: ShardKey,
    pub attempt: Attempt,
}

impl Run {
    #[must_use]
    pub fn new(shard: ShardKey, attempt: Attempt) -> Self {
        Self { shard, attempt }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of {}", self.attempt, self.shard)
    }
}

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An authenticated manager asks. The number is the shell's, to find the caller again.
    Requested {
        id: u64,
        from: NodeId,
        request: WorkerRequest,
    },
    /// Whether the disk has too little room for new work.
    DiskFull(bool),
    /// The managers that membership offers, in the order in which they are to be tried.
    Managers(Vec<NodeId>),

    /// The blobs of a dispatch are here, or why not.
    Fetched {
        run: Run,
        result: Result<(), String>,
    },
    /// The engine can start it at any moment. The plan's graceful stop is known now.
    Prepared {
        run: Run,
        graceful_stop: Duration,
    },
    /// How far it is, about once a second.
    Progress {
        run: Run,
        progress: Progress,
    },
    /// It will need rows of a unique data set.
    RowsWanted {
        run: Run,
        set: u32,
        at_least: u64,
    },
    /// A script or a plan asks to end the whole job.
    Abort {
        run: Run,
        reason: String,
    },
    /// The attempt's own thread has seen its permit withdrawn: nothing is between check and send
    /// any more.
    PermitWithdrawn {
        run: Run,
    },
    /// Its thread has ended.
    Ended {
        run: Run,
        end: EngineEnd,
    },
    /// Its thread did not end after [`Effect::Kill`]; these counts are from the file that it shares
    /// with the world.
    Abandoned {
        run: Run,
        progress: Progress,
        /// What the thread had handed over and its owner may not have yet, as in
        /// [`EngineEnd::totals`].
        totals: Vec<u8>,
    },

    RenewalAnswered {
        number: u64,
        answers: Vec<(ShardKey, Attempt, Renewal)>,
    },
    /// No answer, or one that decides nothing (no majority).
    RenewalFailed {
        number: u64,
    },
    ReportAnswered {
        number: u64,
        ack: ReportAck,
    },
    ReportFailed {
        number: u64,
    },
    /// A report is fsynced, or why not.
    Stored {
        run: Run,
        result: Result<(), String>,
    },

    /// Take no more, finish what runs.
    Drain,
    /// Take no more, and stop what runs: the process is about to end. Others may go on where it
    /// stopped.
    Shutdown,
    /// Time has passed: [`super::Worker::next_due`].
    Tick,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub counters: Counters,
    /// Time in its schedule, pauses taken off.
    pub elapsed: Duration,
    /// Frames of its statistics stream so far.
    pub frames: u64,
    /// How often its thread has answered so far.
    pub answers: u64,
}

/// What the engine leaves of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineEnd {
    pub how: EngineEndKind,
    pub counters: Counters,
    pub provided: BTreeMap<String, Vec<u8>>,
    pub frames: u64,
    pub totals: Vec<u8>,
    /// Its last lines, for people.
    pub log: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEndKind {
    Completed,
    /// It could not be prepared, or ran and reported an error. Final (R5).
    Failed(String),
    /// This machine could not prepare it: its disk is full, it gives no more threads. Another may.
    Unable(String),
    /// Because it was told to.
    Stopped,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Respond {
        to: u64,
        answer: WorkerResponse,
    },

    /// Have these here, from any manager, by hash. Answered by `Fetched`.
    Fetch {
        run: Run,
        blobs: Vec<BlobRef>,
    },
    /// Build it on this core, with its permit closed and its issued file made. Answered by
    /// `Prepared`, or `Ended`.
    Prepare {
        core: u32,
        dispatch: Box<Dispatch>,
    },
    /// At this moment its schedule stands at `elapsed`. The moment may be past: what was due is
    /// then late, not lost.
    Start {
        run: Run,
        at: Moment,
        elapsed: Duration,
        /// The job's time at that moment, for the numbers of windows.
        clock: Duration,
    },
    /// It may send until then, by its own look at the clock.
    ExtendPermit {
        run: Run,
        until: Moment,
    },
    /// It may send nothing more, ever. Answered by `PermitWithdrawn` when its thread has seen it.
    WithdrawPermit {
        run: Run,
    },
    /// Answered by `Ended`.
    Stop {
        run: Run,
        how: StopMode,
    },
    /// Interrupt its script, drop its users, give its thread up. Answered by `Ended`, or by
    /// `Abandoned` and, when the thread ends after all, `Ended`.
    Kill {
        run: Run,
    },
    Steer {
        run: Run,
        steer: Steer,
    },
    GiveRows {
        run: Run,
        rows: RowBlock,
    },
    /// It may begin units below this.
    GrantUnits {
        run: Run,
        end: u64,
    },

    SendRenewal {
        number: u64,
        to: NodeId,
        renew: RenewRequest,
    },
    SendReport {
        number: u64,
        to: NodeId,
        report: WorkerReport,
    },
    /// Fsync it under its name. Answered by `Stored`.
    Store {
        report: Box<EndReport>,
    },
    /// The report's file and the issued file of the attempt are no longer needed.
    Remove {
        run: Run,
    },

    /// Nothing runs, nothing is owed to anybody: the process may end.
    Drained,
}

/// An attempt of an earlier life that left an issued file: what it had counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedFile {
    pub run: Run,
    pub boot: fence::BootId,
    pub counters: Counters,
    /// The machine has not been restarted since, so that the file says all.
    pub certain: bool,
}
