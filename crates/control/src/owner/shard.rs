//! One shard and its attempts: the table S.0 of spec 06, without the two states about dependents (layers are barriers,
//! so a dependent never runs beside what it depends on) and with SKIPPED.
//!
//! | From | To |
//! |---|---|
//! | (made) | PENDING, attempt 1 |
//! | PENDING | DISPATCHED, CANCELLED, FAILED, SKIPPED |
//! | DISPATCHED | RUNNING, COMPLETED (its end overtook its start), CANCELLING, FAILED |
//! | RUNNING | COMPLETED, CANCELLING, FAILED |
//! | FAILED | PENDING with the next attempt, COMPLETED, FAILED_TERMINAL, CANCELLED |
//! | CANCELLING | CANCELLED |
//! | COMPLETED, FAILED_TERMINAL, CANCELLED, SKIPPED | none |
//!
//! FAILED is what infrastructure does to an attempt; an error of the workflow itself goes on to FAILED_TERMINAL in the
//! same step (R5). FAILED to COMPLETED: a worker was taken for lost and its attempt revoked, but before the next one
//! was started its own report of completion came, and the ledger took it.

use std::fmt;
use std::time::Duration;

use fence::{Attempt, BootId, Handover, Moment, NodeId, ShardKey, Terms};

use crate::budget::Budget;
use crate::message::{Halt, Task};
use ledger_state::{AttemptStatus, AttemptTerms, Counters, Lapse};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Pending,
    Dispatched,
    Running,
    Completed,
    Failed,
    FailedTerminal,
    Cancelling,
    Cancelled,
    Skipped,
}

impl State {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Dispatched,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::FailedTerminal,
        Self::Cancelling,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// The table above.
    #[must_use]
    pub fn may_become(self, to: Self) -> bool {
        use State::{
            Cancelled, Cancelling, Completed, Dispatched, Failed, FailedTerminal, Pending, Running,
            Skipped,
        };
        match self {
            Pending => matches!(to, Dispatched | Cancelled | Failed | Skipped),
            Dispatched => matches!(to, Running | Completed | Cancelling | Failed),
            Running => matches!(to, Completed | Cancelling | Failed),
            Failed => matches!(to, Pending | Completed | FailedTerminal | Cancelled),
            Cancelling => to == Cancelled,
            Completed | FailedTerminal | Cancelled | Skipped => false,
        }
    }

    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::FailedTerminal | Self::Cancelled | Self::Skipped)
    }

    /// a step forward counts as progress, a step back does not.
    pub(super) fn is_forward(self) -> bool {
        !matches!(self, Self::Failed | Self::Pending)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "PENDING",
            Self::Dispatched => "DISPATCHED",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::FailedTerminal => "FAILED_TERMINAL",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
            Self::Skipped => "SKIPPED",
        })
    }
}

/// One line of a shard's history (LIFE-7). Times are since the job was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub shard: ShardKey,
    pub attempt: Attempt,
    pub from: State,
    pub to: State,
    pub at: Duration,
    pub reason: String,
}

/// Where exactly a shard is on its way; finer than its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Has no core.
    Idle,
    /// A core is reserved for it.
    Seated,
    /// Its attempt is proposed.
    Proposed,
    /// Its attempt is committed on this worker, but a core has to be reserved again: the owner before died in between.
    Unsent,
    /// Its attempt is committed, and the worker was or will be told.
    Sent,
    Preparing,
    Ready,
    /// Told to start.
    Begun,
    Running,
    /// Its report is on its way into the ledger.
    Ending,
    /// The revoke of its attempt is proposed.
    Revoking,
    /// Revoked: waits for proof that nothing runs any more.
    Lapsing(Handover),
    /// The next attempt may start.
    Lapsed,
    Over,
}

/// Where the next attempt will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub worker: NodeId,
    pub boot: BootId,
    /// A core of this hold; `None`: beside another shard of the workflow.
    pub hold: Option<u32>,
}

/// One attempt, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub worker: NodeId,
    pub boot: BootId,
    pub shared: bool,
    /// As it was started with, whoever owned the job then (R25).
    pub lease: Terms,
    /// Units of its schedule that attempts before it have begun, or may have.
    pub before: u64,
    /// Of arrivals: units that it may have begun before it knew the present rates, those before it included.
    pub before_rates: u64,
    /// How far it may go, if its load is a number of iterations.
    pub budget: Option<Budget>,
    /// What it has told so far.
    pub counters: Counters,
    /// It may have been told to start.
    pub may_run: bool,
    /// Its own last word is here, or it is certain that it never ran: its counts are all there is.
    pub known: bool,
    /// When the ledger took it, since the job was created.
    pub since: Duration,
    /// When anything was last heard of it: a renewal, a frame, an answer of its worker.
    pub alive: Moment,
    /// When a count of it last moved, since the job was created.
    pub heard: Option<Duration>,
    /// A report of it is on its way into the ledger.
    pub reporting: bool,
    pub end: Option<AttemptStatus>,
    /// That end is the owner's word; its worker's own may still come.
    pub by_owner: bool,
    /// Requests that its worker has told of since, beyond its counters.
    pub issued_late: u64,
    pub revoked: bool,
    /// It was revoked because its worker was taken for gone.
    pub suspected: bool,
}

impl Try {
    /// Its worker was taken for gone, and lived: no retry is used. The ledger counts the same
    /// ([`ledger_state::AttemptRecord::was_lost_falsely`]).
    pub fn was_lost_falsely(&self) -> bool {
        self.suspected && self.end == Some(AttemptStatus::Stopped)
    }

    /// Units of its schedule. Of one that counts iterations and has not said its last word nothing is known but how far
    /// it may go; what arrivals another has begun follows from the schedule.
    pub fn may_have_begun(&self) -> u64 {
        match &self.budget {
            Some(budget) if self.may_run && !self.known => {
                budget.end().saturating_sub(self.before).max(self.counters.begun)
            }
            _ => self.counters.begun,
        }
    }
}

/// A stop that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    pub how: Halt,
    pub reason: String,
    /// The job's age when it was decided.
    pub since: Duration,
    /// Then by force; and if it was by force, without the worker.
    pub until: Moment,
    pub acknowledged: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub key: ShardKey,
    pub task: Task,
    pub state: State,
    pub step: Step,
    pub tries: Vec<Try>,
    /// What the attempt that is on its way into the ledger starts with.
    pub proposed: Option<AttemptTerms>,
    /// What proves that the last attempt has stopped.
    pub proof: Lapse,
    pub place: Option<Place>,
    /// Where attempts have failed, oldest first.
    pub failed_on: Vec<(NodeId, BootId)>,
    pub error: Option<String>,
    pub stop: Option<Stopping>,
    /// Since when its load is missing.
    pub lost_at: Option<Duration>,
    /// When its present step has taken too long: being seated, prepared, or run.
    pub due: Option<Moment>,
    /// Not before then, and how often it was tried.
    pub again: Option<Moment>,
    pub seatings: u32,
    /// Taken over from another owner, and its worker has not said yet what it holds.
    pub unsure: bool,
    /// Its load is missing until the end, by policy; the workflow goes on without it.
    pub abandoned: bool,
    /// Dispatches that were refused since it last ran.
    pub refused: u32,
    /// It ran on when its time was over; that is final.
    pub overdue: bool,
}

impl Shard {
    pub fn new(key: ShardKey, task: Task) -> Self {
        Self {
            key,
            task,
            state: State::Pending,
            step: Step::Idle,
            tries: Vec::new(),
            proposed: None,
            proof: Lapse::First,
            place: None,
            failed_on: Vec::new(),
            error: None,
            stop: None,
            lost_at: None,
            due: None,
            again: None,
            seatings: 0,
            unsure: false,
            abandoned: false,
            refused: 0,
            overdue: false,
        }
    }

    /// The last attempt that was started; 0 if there was none.
    pub fn attempt(&self) -> Attempt {
        Attempt(u32::try_from(self.tries.len()).unwrap_or(u32::MAX))
    }

    pub fn current(&self) -> Option<&Try> {
        self.tries.last()
    }

    /// How many retries the next attempt makes.
    pub fn retries_used(&self) -> usize {
        self.tries.iter().filter(|one| !one.was_lost_falsely()).count()
    }

    pub fn get(&self, attempt: Attempt) -> Option<&Try> {
        self.tries.get((attempt.0 as usize).checked_sub(1)?)
    }

    pub fn attempt_mut(&mut self, attempt: Attempt) -> Option<&mut Try> {
        self.tries.get_mut((attempt.0 as usize).checked_sub(1)?)
    }

    /// Its attempt is on a worker, as far as is known.
    pub fn is_out(&self) -> bool {
        matches!(
            self.step,
            Step::Sent | Step::Preparing | Step::Ready | Step::Begun | Step::Running
        )
    }
}
