//! One shard: its states, the table of transitions between them, and where it is on its way. There
//! is no state for waiting on other shards, because layers are barriers: a dependent never runs
//! beside what it depends on.
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
//! FAILED is what infrastructure does to an attempt; an error of the workflow itself goes on to
//! FAILED_TERMINAL in the same step (R5). From FAILED to COMPLETED: a worker was taken for lost and
//! its attempt revoked, but before the next one was started its own report of completion came, and
//! the ledger took it.

use std::fmt;
use std::time::Duration;

use fence::{Attempt, BootId, Handover, Moment, NodeId, ShardKey};

use super::attempt::{AttemptState, Life};
use crate::message::{StopMode, Task};
use ledger_state::{AttemptTerms, LapseProof};

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

    /// A step forward counts as progress. A step back does not: a job that only fails and retries
    /// is stuck.
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
    Placed,
    /// Its attempt is proposed.
    Proposed,
    /// Its attempt is committed on this worker, but a core has to be reserved again: the owner
    /// before died in between.
    Unsent,
    /// Its attempt is committed, and the worker was or will be told.
    Sent,
    Preparing,
    Ready,
    /// It was told to start.
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
pub(super) struct Assignment {
    pub worker: NodeId,
    pub boot: BootId,
    /// A core of this reservation; `None`: beside another shard of the workflow.
    pub reservation: Option<u32>,
}

impl Assignment {
    pub fn life(&self) -> Life {
        (self.worker, self.boot)
    }
}

/// The search for a core, over all attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placing {
    pub assignment: Option<Assignment>,
    /// Where attempts have failed, oldest first.
    pub failed_on: Vec<Life>,
    /// It is not tried before then.
    pub retry_at: Option<Moment>,
    /// How often cores were asked for since the last attempt.
    pub tries: u32,
    /// Dispatches that were refused since it last ran.
    pub refused: u32,
}

/// A stop that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    pub how: StopMode,
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
    state: State,
    pub step: Step,
    pub attempts: Vec<AttemptState>,
    /// What the attempt that is on its way into the ledger starts with.
    pub proposed: Option<AttemptTerms>,
    /// What proves that the last attempt has stopped.
    pub proof: LapseProof,
    pub placing: Placing,
    pub error: Option<String>,
    pub stop: Option<Stopping>,
    /// Since when its load is missing.
    pub lost_at: Option<Duration>,
    /// When its present step has taken too long: being placed, prepared, or run.
    pub due: Option<Moment>,
    /// Taken over from another owner, and its worker has not said yet what it holds.
    pub unsure: bool,
    /// Its load is missing until the end, by policy; the workflow goes on without it.
    pub abandoned: bool,
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
            attempts: Vec::new(),
            proposed: None,
            proof: LapseProof::First,
            placing: Placing::default(),
            error: None,
            stop: None,
            lost_at: None,
            due: None,
            unsure: false,
            abandoned: false,
            overdue: false,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Moves on as the table has it, and says from where; a shard that has ended has nothing more
    /// to wait for. `None`: the table does not have that, and nothing has changed.
    pub fn go(&mut self, to: State) -> Option<State> {
        let from = self.state;
        if !from.may_become(to) {
            return None;
        }
        self.state = to;
        if to.is_terminal() {
            (self.step, self.due, self.stop) = (Step::Over, None, None);
        }
        Some(from)
    }

    /// The state in which an owner before has left it, as the ledger shows.
    pub fn restore(&mut self, state: State) {
        self.state = state;
        if state.is_terminal() {
            self.step = Step::Over;
        }
    }

    /// The last attempt that was started; 0 if there was none.
    pub fn attempt(&self) -> Attempt {
        Attempt(u32::try_from(self.attempts.len()).unwrap_or(u32::MAX))
    }

    pub fn current(&self) -> Option<&AttemptState> {
        self.attempts.last()
    }

    /// How many retries the next attempt makes.
    pub fn retries_used(&self) -> usize {
        self.attempts.iter().filter(|one| !one.was_lost_falsely()).count()
    }

    pub fn get(&self, attempt: Attempt) -> Option<&AttemptState> {
        self.attempts.get((attempt.0 as usize).checked_sub(1)?)
    }

    pub fn attempt_mut(&mut self, attempt: Attempt) -> Option<&mut AttemptState> {
        self.attempts.get_mut((attempt.0 as usize).checked_sub(1)?)
    }

    /// Its attempt is on a worker, as far as is known.
    pub fn is_out(&self) -> bool {
        matches!(
            self.step,
            Step::Sent | Step::Preparing | Step::Ready | Step::Begun | Step::Running
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fence::{JobId, WorkflowNo};

    use super::*;

    fn shard(state: State) -> Shard {
        let key = ShardKey { job: JobId(1), workflow: WorkflowNo(0), shard: 0 };
        let mut shard = Shard::new(key, Task::Load);
        shard.restore(state);
        shard
    }

    /// The table of the header, from every state to every state.
    #[test]
    fn a_shard_moves_as_the_table_says_and_stays_where_it_is_otherwise() {
        use State::{
            Cancelled, Cancelling, Completed, Dispatched, Failed, FailedTerminal, Pending, Running,
            Skipped,
        };
        let table: [(State, &[State]); 9] = [
            (Pending, &[Dispatched, Cancelled, Failed, Skipped]),
            (Dispatched, &[Running, Completed, Cancelling, Failed]),
            (Running, &[Completed, Cancelling, Failed]),
            (Failed, &[Pending, Completed, FailedTerminal, Cancelled]),
            (Cancelling, &[Cancelled]),
            (Completed, &[]),
            (FailedTerminal, &[]),
            (Cancelled, &[]),
            (Skipped, &[]),
        ];
        for (from, allowed) in table {
            for to in State::ALL {
                let mut shard = shard(from);
                let moved = shard.go(to);
                assert_eq!(moved.is_some(), allowed.contains(&to), "{from} to {to}");
                assert_eq!(moved.unwrap_or(from), from, "{from} to {to}");
                let then = if moved.is_some() { to } else { from };
                assert_eq!(shard.state(), then, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_shard_that_has_ended_waits_for_nothing_and_one_that_has_not_goes_on_waiting() {
        let due = Moment::default().after(Duration::from_secs(1));
        for (to, ends) in [(State::Completed, true), (State::Cancelling, false)] {
            let mut shard = shard(State::Running);
            (shard.step, shard.due) = (Step::Running, Some(due));
            shard.go(to);
            assert_eq!(shard.step == Step::Over, ends, "{to}");
            assert_eq!(shard.due.is_none(), ends, "{to}");
        }
    }
}
