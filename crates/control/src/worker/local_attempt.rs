//! One attempt on this worker, from the fence to its report.
//!
//! ```text
//!          Fetched       Prepared      lease held, Start      its moment        Ended
//! Fetching ──────▶ Preparing ──▶ Ready ───────────────▶ Starting ──▶ Running ─────────▶ outbox
//!    │ deadline        │            │ deadline              │           │ run_at_most, Stop(Graceful)
//!    │                 │            │                       │           ▼
//!    │                 ├────────────┴──── Stop(Now), ───────┴──────▶ Graceful ── deadline ╮
//!    │                 │       lapse, refused renewal                   │ deadline, Stop(Now), lapse
//!    ▼                 ▼                                                ▼                 │
//!  outbox           Forced: no permit ── deadline ▶ Killing ── deadline, Abandoned ▶ outbox (its core stays taken)
//! ```
//!
//! From `Forced` on the attempt sends nothing, whatever its thread does.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{ExecutionLease, LeaseTerms, Moment};

use super::cores::CoreLease;
use super::message::{EngineEndKind, Progress, Run};
use crate::message::{AttemptPhase, Dispatch, RowBlock, StopMode};
use ledger_state::AttemptStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fetching { until: Moment, again: Option<Moment> },
    Preparing { until: Moment },
    Ready { until: Moment },
    Starting { at: Moment },
    Running { until: Moment },
    Graceful { until: Moment },
    Forced { until: Moment },
    Killing { until: Moment },
}

impl Phase {
    pub fn shown(self) -> AttemptPhase {
        match self {
            Self::Fetching { .. } | Self::Preparing { .. } => AttemptPhase::Preparing,
            Self::Ready { .. } => AttemptPhase::Ready,
            Self::Starting { .. } | Self::Running { .. } => AttemptPhase::Running,
            Self::Graceful { .. } | Self::Forced { .. } | Self::Killing { .. } => {
                AttemptPhase::Stopping
            }
        }
    }

    /// It was told to end by force, or is past that.
    pub fn is_forced(self) -> bool {
        matches!(self, Self::Forced { .. } | Self::Killing { .. })
    }

    /// Its engine follows live control.
    pub fn is_begun(self) -> bool {
        matches!(self, Self::Starting { .. } | Self::Running { .. } | Self::Graceful { .. })
    }
}

/// Why an attempt was made to end. Without one, it ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// The owner said so.
    Ordered {
        how: StopMode,
        reason: String,
    },
    /// A manager said that it is not current, or that its job is over.
    Refused(String),
    /// A higher attempt of its shard came.
    Superseded,
    Lapsed,
    /// Longer than `run_at_most`.
    Overrun(Duration),
    NotPrepared(String),
    NotStarted(String),
    /// The worker itself ends.
    Leaving,
}

impl EndCause {
    /// What the report says, given how the engine says that it ended.
    pub fn verdict(self, how: EngineEndKind) -> (AttemptStatus, Option<String>) {
        use AttemptStatus::{Completed, Failed, Interrupted, Stopped};
        match (self, how) {
            // It was free to end well, and did; or it failed by itself while it was ending.
            (
                Self::Ordered { how: StopMode::Graceful, .. } | Self::Overrun(_),
                EngineEndKind::Completed,
            ) => (Completed, None),
            (
                Self::Ordered { how: StopMode::Graceful, .. } | Self::Overrun(_),
                EngineEndKind::Failed(error),
            ) => (Failed, Some(error)),
            (Self::Ordered { reason, .. }, _) => (Stopped, Some(reason)),
            (Self::Refused(why), _) => (Stopped, Some(format!("its lease was not renewed: {why}"))),
            (Self::Superseded, _) => {
                (Stopped, Some("a later attempt came to the same worker".into()))
            }
            (Self::Lapsed, _) => {
                let why = "its lease ran out: no manager granted a renewal in time";
                (Interrupted, Some(why.into()))
            }
            // An error and not a loss: another worker would be stuck in the same place (R5).
            (Self::Overrun(most), EngineEndKind::Stopped) => {
                let why = format!("it had not ended {:.1} s after its start", most.as_secs_f64());
                (Failed, Some(why))
            }
            (Self::Overrun(_), EngineEndKind::Unable(why)) => (Interrupted, Some(why)),
            (Self::Leaving, _) => (Interrupted, Some("its worker was shut down".into())),
            (Self::NotPrepared(why) | Self::NotStarted(why), _) => (Interrupted, Some(why)),
        }
    }
}

/// Whether its thread can still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitState {
    /// As far as its lease goes.
    Led,
    /// Shut, and its thread has not said that it saw it.
    Shutting,
    Shut,
}

/// An attempt that has not ended.
#[derive(Debug)]
pub(super) struct LocalAttempt {
    pub run: Run,
    /// Until it is handed to the engine.
    pub dispatch: Option<Box<Dispatch>>,
    pub core: CoreLease,
    pub lease: ExecutionLease,
    pub terms: LeaseTerms,
    pub phase: Phase,
    pub gate: PermitState,
    /// The end of the newest grant: until then the thread's own look at the clock lets it send.
    pub gate_until: Option<Moment>,
    /// The moment for which the engine was told to start it.
    pub begun: Option<Moment>,
    pub cause: Option<EndCause>,
    /// When the owner wants it to begin, and when it did.
    pub start: Option<Moment>,
    /// Where its schedule stands then: as dispatched, until the start says better.
    pub elapsed_at_start: Duration,
    pub clock_at_start: Duration,
    pub run_at_most: Duration,
    pub graceful_stop: Duration,
    pub progress: Option<Progress>,
    /// When that was.
    pub progress_at: Moment,
    /// What a thread that was given up had handed over before.
    pub totals: Vec<u8>,
    /// It may begin units below this, where they are counted.
    pub units_end: Option<u64>,
    /// When its thread was last known to have answered.
    pub answered: Option<Moment>,
    /// The end of the last block of each set: what begins below it is a repeat.
    pub rows_until: BTreeMap<u32, u64>,
    /// Callers that want to hear `Stopped`.
    pub waiters: Vec<u64>,
    /// Why its blobs did not come, the last time.
    pub trouble: Option<String>,
}

impl LocalAttempt {
    pub fn new(dispatch: Box<Dispatch>, core: CoreLease, prepare_until: Moment) -> Self {
        let run = Run::new(dispatch.order.shard, dispatch.order.step.attempt);
        let terms = LeaseTerms::new(dispatch.lease);
        let mut local_attempt = Self {
            run,
            core,
            lease: ExecutionLease::new(run.shard, run.attempt, terms),
            terms,
            phase: Phase::Fetching { until: prepare_until, again: None },
            gate: PermitState::Led,
            gate_until: None,
            begun: None,
            cause: None,
            start: None,
            elapsed_at_start: dispatch.elapsed,
            clock_at_start: Duration::ZERO,
            run_at_most: dispatch.run_at_most,
            graceful_stop: Duration::ZERO,
            progress: None,
            totals: Vec::new(),
            progress_at: Moment::default(),
            units_end: dispatch.units_end,
            answered: None,
            rows_until: BTreeMap::new(),
            waiters: Vec::new(),
            trouble: None,
            dispatch: None,
        };
        for block in &dispatch.rows {
            local_attempt.takes_rows(*block);
        }
        local_attempt.dispatch = Some(dispatch);
        local_attempt
    }

    /// Whether these rows are news. Blocks of a set rise, so what begins below the last one's end
    /// was here before, or was overtaken; in both cases nobody may issue it now. An empty block
    /// says that there are none left.
    pub fn takes_rows(&mut self, block: RowBlock) -> bool {
        let RowBlock { set, first, end } = block;
        let until = self.rows_until.entry(set).or_default();
        if first < *until {
            return false;
        }
        *until = end.max(first);
        true
    }

    /// Whether its thread might send at this moment, whatever it was told: it has not said that it
    /// saw its permit withdrawn, and its own clock does not forbid it yet.
    pub fn might_send(&self, now: Moment) -> bool {
        self.begun.is_some()
            && self.gate != PermitState::Shut
            && self.gate_until.is_some_and(|until| now < until)
    }

    /// Time in its schedule: the engine's last word and what has passed since, or else the time
    /// since its start. `now` stands still while the job is paused. A new owner goes on from here,
    /// so it must not be behind what was issued.
    pub fn elapsed(&self, now: Moment) -> Duration {
        match (self.progress, self.start) {
            (Some(progress), _) => {
                let since = match self.phase {
                    Phase::Running { .. } | Phase::Graceful { .. } => now.since(self.progress_at),
                    _ => Duration::ZERO,
                };
                progress.elapsed.saturating_add(since)
            }
            (None, Some(start)) if self.begun.is_some() => {
                self.elapsed_at_start.saturating_add(now.since(start))
            }
            (None, _) => self.elapsed_at_start,
        }
    }

    /// The job's clock when it could last send; none if it was never started.
    pub fn sent_until(&self, now: Moment) -> Option<Duration> {
        let last = self.gate_until.map_or(now, |until| until.min(now));
        let start = self.start.filter(|_| self.begun.is_some())?;
        Some(self.clock_at_start.saturating_add(last.since(start)))
    }

    /// The next moment at which its phase needs a look.
    pub fn phase_due(&self, paused: bool) -> Option<Moment> {
        match self.phase {
            Phase::Fetching { until, again } => Some(again.map_or(until, |again| again.min(until))),
            Phase::Running { .. } if paused => None,
            Phase::Preparing { until }
            | Phase::Ready { until }
            | Phase::Running { until }
            | Phase::Graceful { until }
            | Phase::Forced { until }
            | Phase::Killing { until } => Some(until),
            Phase::Starting { at } => Some(at),
        }
    }
}
