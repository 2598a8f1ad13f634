//! A cancel: what runs ends as the plan says, what was set up is torn down, and all of it until a deadline (R28).
//!
//! ```text
//! cancel ─▶ graceful stop of what runs ─▶ teardowns of workflows, then of the plan ─▶ CANCELLED
//!              ╰── second cancel, or its deadline: everything is stopped by force ──────▲
//! ```
//!
//! The ledger renews leases and lets teardowns start until the deadline, whoever owns the job, so a successor goes on
//! where its predecessor was. The owner keeps the same deadline by its own clock: it stops by force what the ledger
//! would refuse, and waits for nothing that cannot come any more.

use std::time::Duration;

use stats::{Outcome, StopReason};

use super::shard::Shard;
use super::{Manifest, Owner, Phase, Settings, Sid};
use crate::message::{Halt, Task};
use ledger_state::{self, Grace};
use schedule::job;

/// Another owner may have to take the job up before anybody can be told to stop.
const HANDOVER: Duration = Duration::from_secs(30);

impl Manifest {
    /// How long a job of this plan may take to end after a cancel.
    #[must_use]
    pub fn grace(&self, settings: &Settings) -> Grace {
        let graceful = self.workflows.iter().map(|part| part.graceful_stop).max();
        let stop = graceful.unwrap_or_default().saturating_add(HANDOVER);
        let own = self.workflows.iter().any(|part| part.teardown);
        let teardowns = u32::from(own) + u32::from(self.teardown);
        let each = settings.aside_at_most.saturating_add(HANDOVER);
        let teardown = stop.saturating_add(each.saturating_mul(teardowns));
        let asides = u32::try_from(self.workflows.len()).ok().map(fence::WorkflowNo);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Grace {
            stop_ms: millis(stop),
            teardown_ms: millis(teardown),
            asides: asides.filter(|_| teardowns > 0),
        }
    }
}

/// What is known of a cancel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cancelling {
    /// Everything ends at once: it was cancelled again, or its deadline has passed.
    pub forced: bool,
    /// Until then teardowns may start. `None`: the ledger refused something, and has not said until when yet.
    pub until: Option<fence::Moment>,
}

impl Cancelling {
    /// As the ledger has it.
    pub fn of(cancel: &ledger_state::Cancel, now_ms: u64, now: fence::Moment) -> Self {
        let left = Duration::from_millis(cancel.teardown_until_ms.saturating_sub(now_ms));
        Self { forced: cancel.hard.is_some(), until: Some(now.after(left)) }
    }
}

impl Owner {
    /// The tombstone was seen. It wins over everything that is on its way.
    pub(super) fn cancel_seen(&mut self, reason: &str, hard: bool, within: Duration) {
        if self.phase > Phase::Closing {
            self.counts.repeats += 1;
            return;
        }
        if !self.is_cancelled() {
            self.cancel(reason);
        }
        let until = self.now.after(within);
        if let Some(cancelling) = &mut self.cancelling {
            match &mut cancelling.until {
                Some(known) => *known = (*known).min(until),
                None => {
                    cancelling.until = Some(until);
                    self.detail = reason.to_owned();
                }
            }
        }
        self.changed();
        if hard {
            self.force("cancelled again: everything ends at once");
        }
    }

    /// The job is cancelled, and it is not known yet until when its teardown may run.
    pub(super) fn cancel(&mut self, reason: &str) {
        if self.cancelling.is_some() || self.phase > Phase::Closing {
            self.counts.repeats += 1;
            return;
        }
        self.cancelling = Some(Cancelling::default());
        self.detail = reason.to_owned();
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.note(format!("cancelled{why}"), None);
        self.halting = Halt::Graceful;
        match self.phase {
            // Said to the machine when it has been brought up to date.
            Phase::Recovering { .. } => {}
            // The machine is done, and the result is not made yet.
            Phase::Closing => self.outcome = Some(Outcome::Cancelled),
            _ => self.tell(job::Event::StopRequested { reason: StopReason::Cancelled }),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelling.is_some()
    }

    /// A new owner has brought the machine up to date with a job that was cancelled before.
    pub(super) fn cancel_again(&mut self) {
        self.tell(job::Event::StopRequested { reason: StopReason::Cancelled });
        if self.cancelling.is_some_and(|cancelling| cancelling.forced) {
            self.stop_by_force();
        }
    }

    /// Whether what was set up may still be torn down.
    pub(super) fn may_tear_down(&self) -> bool {
        self.cancelling.is_none_or(|cancelling| {
            !cancelling.forced && cancelling.until.is_none_or(|until| self.now < until)
        })
    }

    /// A teardown that is worth another try, although the job is being stopped.
    pub(super) fn tears_down(&self, sid: Sid) -> bool {
        let is_teardown = |shard: &Shard| matches!(shard.task, Task::Teardown { .. });
        self.shards.get(&sid).is_some_and(is_teardown) && self.may_tear_down()
    }

    /// The deadline of the cancel, if it has not passed.
    pub(super) fn cancel_due(&self) -> Option<fence::Moment> {
        self.cancelling.filter(|cancelling| !cancelling.forced)?.until
    }

    pub(super) fn look_at_cancel(&mut self) {
        if self.cancel_due().is_some_and(|due| due <= self.now) {
            self.force("the time to end after the cancel is over: everything is stopped");
        }
    }

    fn force(&mut self, why: &str) {
        let Some(cancelling) = self.cancelling.as_mut().filter(|known| !known.forced) else {
            return;
        };
        cancelling.forced = true;
        if self.phase > Phase::Closing {
            return;
        }
        self.note(why, None);
        self.changed();
        if self.phase == Phase::Active {
            self.stop_by_force();
        }
    }

    /// Whatever runs, teardowns among it.
    fn stop_by_force(&mut self) {
        self.halting = Halt::Now;
        let members = self.wave.as_ref().map(|wave| wave.members.clone()).unwrap_or_default();
        let reason = self.detail.clone();
        for sid in members {
            self.halt(sid, Halt::Now, &reason);
        }
        self.changed();
    }

    /// Nothing is left but the plan's teardown. Says why it is not run, if it is not.
    pub(super) fn wants_teardown(&mut self) -> bool {
        if !self.has_begun() {
            // What never began needs none.
            return false;
        }
        let may = self.may_tear_down();
        if !may {
            self.note("teardown not run: the job had to end at once", None);
        }
        may
    }
}
