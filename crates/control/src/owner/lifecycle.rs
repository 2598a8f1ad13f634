//! How far the job is between taking it up and its end: its phase, why it is stopped, and what
//! comes of it.

use std::time::Duration;

use fence::Moment;
use stats::Outcome;

use crate::message::StopMode;
use ledger_state::{self, BlobRef, StopCause};

/// In the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Recovering {
        until: Moment,
    },
    Active,
    /// Waits for the final reports of lost attempts, then for the result.
    Closing,
    Concluding,
    Recording,
    Finishing,
    Finished,
    Deposed,
}

/// What is known of a cancel.
#[derive(Clone, Copy, Debug, Default)]
struct Cancelling {
    /// Everything ends at once: it was cancelled again, or its deadline has passed.
    forced: bool,
    /// Until then teardowns may start. `None`: the ledger refused something, and has not said until
    /// when yet.
    until: Option<Moment>,
}

#[derive(Clone, Debug)]
pub(super) struct Lifecycle {
    phase: Phase,
    cancelling: Option<Cancelling>,
    stop_proposed: bool,
    /// The owner's own stop, until it is known to be in the ledger.
    stop_cause: Option<(StopCause, String)>,
    /// How what runs is ended, once it is.
    how: StopMode,
    outcome: Option<Outcome>,
    /// Why the job is stopped, in one line.
    detail: String,
    result: Option<BlobRef>,
}

impl Lifecycle {
    /// As the ledger has the job.
    pub fn of(job: &ledger_state::Job, now_ms: u64, now: Moment, recovering_until: Moment) -> Self {
        let cancelling = job.cancel.as_ref().map(|cancel| {
            let left = Duration::from_millis(cancel.teardown_until_ms.saturating_sub(now_ms));
            Cancelling { forced: cancel.hard.is_some(), until: Some(now.after(left)) }
        });
        Self {
            phase: Phase::Recovering { until: recovering_until },
            cancelling,
            stop_proposed: job.stop.is_some(),
            stop_cause: None,
            how: StopMode::Graceful,
            outcome: None,
            detail: job.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default(),
            result: job.result,
        }
    }

    // ── phases ─────────────────────────────────────────────────────────────────────────────────

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovering { .. })
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Deposed)
    }

    /// The result is being made, or is made: it is too late to change how the job ends.
    pub fn is_concluding(&self) -> bool {
        self.phase > Phase::Closing
    }

    // ── the end ────────────────────────────────────────────────────────────────────────────────

    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The machine of workflows has come to its end.
    pub fn finish(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        if self.phase == Phase::Active {
            self.phase = Phase::Closing;
        }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn set_detail(&mut self, detail: &str) {
        detail.clone_into(&mut self.detail);
    }

    pub fn has_result(&self) -> bool {
        self.result.is_some()
    }

    pub fn set_result(&mut self, result: BlobRef) {
        self.result = Some(result);
    }

    // ── stops ──────────────────────────────────────────────────────────────────────────────────

    /// How what runs is ended.
    pub fn how(&self) -> StopMode {
        self.how
    }

    /// What runs ends at once.
    pub fn end_at_once(&mut self) {
        self.how = StopMode::Now;
    }

    /// The owner, or one before it, has decided to stop the job.
    pub fn is_stop_proposed(&self) -> bool {
        self.stop_proposed
    }

    /// The owner decides to stop the job. The decision holds when it is committed.
    pub fn propose_stop(&mut self, cause: StopCause, reason: String) {
        self.stop_proposed = true;
        self.set_detail(&reason);
        self.how = if cause == StopCause::Timeout { StopMode::Now } else { StopMode::Graceful };
        self.stop_cause = Some((cause, reason));
    }

    /// The decision holds; `None`: that is known already.
    pub fn take_stop(&mut self) -> Option<(StopCause, String)> {
        self.stop_cause.take()
    }

    // ── cancels ────────────────────────────────────────────────────────────────────────────────

    pub fn is_cancelled(&self) -> bool {
        self.cancelling.is_some()
    }

    /// The job is cancelled, and it is not known yet until when its teardown may run. False: it is
    /// cancelled already, or it is too late for that.
    pub fn cancel(&mut self, reason: &str) -> bool {
        if self.is_cancelled() || self.is_concluding() {
            return false;
        }
        self.cancelling = Some(Cancelling::default());
        self.set_detail(reason);
        self.how = StopMode::Graceful;
        if self.phase == Phase::Closing {
            // The machine is done, and the result is not made yet.
            self.outcome = Some(Outcome::Cancelled);
        }
        true
    }

    /// The ledger says until when teardowns may start. The earliest deadline holds; the first one
    /// comes with the reason.
    pub fn cancel_until(&mut self, until: Moment, reason: &str) {
        let Some(cancelling) = &mut self.cancelling else { return };
        let is_first = cancelling.until.is_none();
        cancelling.until = Some(cancelling.until.map_or(until, |known| known.min(until)));
        if is_first {
            self.set_detail(reason);
        }
    }

    /// Everything has to end at once. False: it has to already, or is not cancelled.
    pub fn force(&mut self) -> bool {
        let cancelling = self.cancelling.as_mut().filter(|known| !known.forced);
        cancelling.map(|known| known.forced = true).is_some()
    }

    pub fn is_forced(&self) -> bool {
        self.cancelling.is_some_and(|cancelling| cancelling.forced)
    }

    /// The deadline of the cancel, if everything does not end at once anyway.
    pub fn cancel_due(&self) -> Option<Moment> {
        self.cancelling.filter(|cancelling| !cancelling.forced)?.until
    }

    /// Whether what was set up may still be torn down.
    pub fn may_tear_down(&self, now: Moment) -> bool {
        let is_in_time = |it: Cancelling| it.until.is_none_or(|until| now < until);
        self.cancelling.is_none_or(|it| !it.forced && is_in_time(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    fn in_phase(phase: Phase) -> Lifecycle {
        Lifecycle {
            phase,
            cancelling: None,
            stop_proposed: false,
            stop_cause: None,
            how: StopMode::Graceful,
            outcome: None,
            detail: String::new(),
            result: None,
        }
    }

    #[test]
    fn a_cancel_is_taken_once_and_only_until_the_result_is_made() {
        let rows = [
            (Phase::Recovering { until: at(1) }, true, None),
            (Phase::Active, true, None),
            (Phase::Closing, true, Some(Outcome::Cancelled)),
            (Phase::Concluding, false, None),
            (Phase::Finished, false, None),
        ];
        for (phase, taken, outcome) in rows {
            let mut lifecycle = in_phase(phase);
            assert_eq!(lifecycle.cancel("no more"), taken, "{phase:?}");
            assert_eq!(lifecycle.outcome(), outcome, "{phase:?}");
            assert!(!lifecycle.cancel("again"), "{phase:?}");
            let detail = if taken { "no more" } else { "" };
            assert_eq!(lifecycle.detail(), detail, "{phase:?}");
        }
    }

    #[test]
    fn teardowns_may_start_until_the_earliest_deadline_or_until_everything_ends_at_once() {
        let mut lifecycle = in_phase(Phase::Active);
        assert!(lifecycle.may_tear_down(at(999)));
        lifecycle.cancel("first");
        assert!(lifecycle.may_tear_down(at(999)), "no deadline is known yet");
        lifecycle.cancel_until(at(50), "as the ledger has it");
        lifecycle.cancel_until(at(70), "later");
        assert_eq!(lifecycle.detail(), "as the ledger has it");
        assert_eq!(lifecycle.cancel_due(), Some(at(50)));
        assert!(lifecycle.may_tear_down(at(49)) && !lifecycle.may_tear_down(at(50)));
        assert!(lifecycle.force() && !lifecycle.force());
        assert!(!lifecycle.may_tear_down(at(1)));
        assert_eq!(lifecycle.cancel_due(), None);
    }

    #[test]
    fn nothing_is_forced_that_was_not_cancelled() {
        let mut lifecycle = in_phase(Phase::Active);
        assert!(!lifecycle.force() && !lifecycle.is_forced());
        lifecycle.cancel_until(at(5), "nothing");
        assert_eq!((lifecycle.cancel_due(), lifecycle.detail()), (None, ""));
    }

    #[test]
    fn a_time_out_ends_at_once_what_other_stops_let_come_to_its_end() {
        for (cause, how) in [
            (StopCause::Timeout, StopMode::Now),
            (StopCause::Aborted, StopMode::Graceful),
            (StopCause::Threshold(1), StopMode::Graceful),
        ] {
            let mut lifecycle = in_phase(Phase::Active);
            lifecycle.propose_stop(cause, "why".to_owned());
            assert_eq!(lifecycle.how(), how, "{cause:?}");
            assert_eq!(lifecycle.take_stop(), Some((cause, "why".to_owned())));
            assert_eq!(lifecycle.take_stop(), None, "{cause:?}");
            assert!(lifecycle.is_stop_proposed());
        }
    }

    #[test]
    fn the_machines_end_closes_a_job_that_is_active_and_moves_no_other() {
        let rows = [
            (Phase::Active, Phase::Closing),
            (Phase::Recovering { until: at(1) }, Phase::Recovering { until: at(1) }),
            (Phase::Deposed, Phase::Deposed),
        ];
        for (phase, then) in rows {
            let mut lifecycle = in_phase(phase);
            lifecycle.finish(Outcome::Completed);
            assert_eq!((lifecycle.phase(), lifecycle.outcome()), (then, Some(Outcome::Completed)));
        }
    }
}
