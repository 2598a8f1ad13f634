//! A cancel: what runs ends as the plan says, what was set up is torn down, and all of it until a
//! deadline (R28).
//!
//! ```text
//! cancel ─▶ graceful stop of what runs ─▶ teardowns of workflows, then of the plan ─▶ CANCELLED
//!              ╰── second cancel, or its deadline: everything is stopped by force ──────▲
//! ```
//!
//! The ledger renews leases and lets teardowns start until the deadline, whoever owns the job, so a
//! successor goes on where its predecessor was. The owner keeps the same deadline by its own clock:
//! it stops by force what the ledger would refuse, and waits for nothing that cannot come any more.

use std::time::Duration;

use stats::StopReason;

use super::shard::Shard;
use super::{Manifest, Owner, Phase, Settings, Sid};
use crate::message::{StopMode, Task};
use ledger_state::Grace;
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
        let each = settings.hook_at_most.saturating_add(HANDOVER);
        let teardown = stop.saturating_add(each.saturating_mul(teardowns));
        let hooks = u32::try_from(self.workflows.len()).ok().map(fence::WorkflowNo);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Grace {
            stop_ms: millis(stop),
            teardown_ms: millis(teardown),
            hooks: hooks.filter(|_| teardowns > 0),
        }
    }
}

impl Owner {
    /// The tombstone was seen. It wins over everything that is on its way.
    pub(super) fn cancel_seen(&mut self, reason: &str, hard: bool, within: Duration) {
        if self.lifecycle.is_concluding() {
            self.journal.count_repeat();
            return;
        }
        if !self.lifecycle.is_cancelled() {
            self.cancel(reason);
        }
        self.lifecycle.cancel_until(self.time.after(within), reason);
        self.outgoing.changed();
        if hard {
            self.force("cancelled again: everything ends at once");
        }
    }

    /// The job is cancelled, and it is not known yet until when its teardown may run.
    pub(super) fn cancel(&mut self, reason: &str) {
        if !self.lifecycle.cancel(reason) {
            return self.journal.count_repeat();
        }
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.note(format!("cancelled{why}"), None);
        // A machine that is being brought up to date is told afterwards; one that is done needs no
        // stop.
        if self.lifecycle.phase() == Phase::Active {
            self.step_workflows(job::Event::StopRequested { reason: StopReason::Cancelled });
        }
    }

    /// A new owner has brought the machine up to date with a job that was cancelled before.
    pub(super) fn cancel_again(&mut self) {
        self.step_workflows(job::Event::StopRequested { reason: StopReason::Cancelled });
        if self.lifecycle.is_forced() {
            self.stop_by_force();
        }
    }

    /// A teardown that is worth another try, although the job is being stopped.
    pub(super) fn tears_down(&self, sid: Sid) -> bool {
        let is_teardown = |shard: &Shard| matches!(shard.task, Task::Teardown { .. });
        self.shards.get(&sid).is_some_and(is_teardown)
            && self.lifecycle.may_tear_down(self.time.now())
    }

    pub(super) fn look_at_cancel(&mut self) {
        if self.lifecycle.cancel_due().is_some_and(|due| due <= self.time.now()) {
            self.force("the time to end after the cancel is over: everything is stopped");
        }
    }

    fn force(&mut self, why: &str) {
        if !self.lifecycle.force() || self.lifecycle.is_concluding() {
            return;
        }
        self.note(why, None);
        self.outgoing.changed();
        if self.lifecycle.phase() == Phase::Active {
            self.stop_by_force();
        }
    }

    /// Whatever runs, teardowns among it.
    fn stop_by_force(&mut self) {
        self.lifecycle.end_at_once();
        let members = self.stages.members();
        let reason = self.lifecycle.detail().to_owned();
        for sid in members {
            self.halt(sid, StopMode::Now, &reason);
        }
        self.outgoing.changed();
    }

    /// Nothing is left but the plan's teardown. Says why it is not run, if it is not.
    pub(super) fn wants_teardown(&mut self) -> bool {
        if !self.shards.have_begun() {
            // What never began needs none.
            return false;
        }
        let may = self.lifecycle.may_tear_down(self.time.now());
        if !may {
            self.note("teardown not run: the job had to end at once", None);
        }
        may
    }
}
