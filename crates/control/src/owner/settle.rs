//! What the end of its last attempt means for a shard: over, or free for the next attempt.

use std::time::Duration;

use fence::NodeId;

use super::shard::{State, Step};
use super::{Owner, Sid};
use crate::message::EndReport;
use ledger_state::{AttemptStatus, LapseProof};

/// Load that was missing for less than this before a stop is not worth a note.
const MISSING_FROM: Duration = Duration::from_millis(500);

impl Owner {
    /// What the end of its last attempt means for a shard.
    pub(super) fn settle(&mut self, sid: Sid, status: AttemptStatus, report: Option<EndReport>) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let (state, attempt) = (shard.state(), shard.attempt());
        if shard.step == Step::Over {
            return;
        }
        let age = self.time.age();
        self.workflows.ends(sid.0 as usize, age);
        if state == State::Pending && self.settle_pending(sid, status, report.as_ref()) {
            return;
        }
        if state == State::Cancelling {
            self.note_lost_before_stop(sid, status, report.as_ref());
            // A setup that had come to its end all the same has left what the teardown needs.
            if self.spec.is_hook(sid)
                && status == AttemptStatus::Completed
                && let Some(report) = report
            {
                self.provide(sid, report.provided);
            }
            // The cancel wins over how it ended; its counts are kept.
            self.go(sid, State::Cancelled, format!("attempt {attempt} has {status}"));
            return;
        }
        match status {
            AttemptStatus::Completed => {
                if let Some(report) = report {
                    self.provide(sid, report.provided);
                }
                self.go(sid, State::Completed, "worker reported success");
            }
            AttemptStatus::Failed => {
                let error = report.and_then(|report| report.error);
                let error = error.unwrap_or_else(|| "it failed without a reason".to_owned());
                self.give_up(sid, error);
            }
            AttemptStatus::Stopped | AttemptStatus::Interrupted => {
                self.settle_early_end(sid, status, report);
            }
        }
    }

    /// Nobody here stopped it: its worker is shutting down, or has lost its lease.
    fn settle_early_end(&mut self, sid: Sid, status: AttemptStatus, report: Option<EndReport>) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let (state, attempt) = (shard.state(), shard.attempt());
        let sent_until = report.as_ref().and_then(|report| self.sent_until(report));
        let why = report.and_then(|report| report.error);
        let why = why.unwrap_or_else(|| format!("attempt {attempt} was {status}"));
        if state != State::Failed {
            if status == AttemptStatus::Interrupted {
                self.note_interrupted(sid, state, &why);
            }
            let ran = self.shards.current(&sid).is_some_and(|one| one.may_run);
            if (state == State::Running || ran)
                && !self.spec.is_hook(sid)
                && let Some(shard) = self.shards.get_mut(&sid)
            {
                shard.lost_at = shard.lost_at.or(sent_until).or(Some(self.time.age()));
            }
            self.go(sid, State::Failed, why);
        }
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.proof = LapseProof::Stopped;
        }
        self.set(sid, Step::Lapsed);
    }

    fn note_interrupted(&mut self, sid: Sid, state: State, why: &str) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let Some((node, boot)) = shard.current().map(|one| one.life()) else { return };
        shard.placing.failed_on.push((node, boot));
        shard.error = Some(format!("worker {node}: {why}"));
        if state == State::Dispatched {
            // It could not even begin there: not at once again.
            shard.placing.refused = shard.placing.refused.saturating_add(1);
        }
        self.say_interrupted(sid, node, why);
    }

    /// A shard that is being stopped may have come to grief before: its lease had lapsed, and its
    /// report came after the stop. From then until the stop its load was missing.
    fn note_lost_before_stop(
        &mut self,
        sid: Sid,
        status: AttemptStatus,
        report: Option<&EndReport>,
    ) {
        if status != AttemptStatus::Interrupted || self.spec.is_hook(sid) {
            return;
        }
        let sent_until = report.and_then(|report| self.sent_until(report));
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let stopped = shard.stop.as_ref().map(|stop| stop.since);
        if let (Some(sent), Some(stopped)) = (sent_until, stopped)
            && sent.saturating_add(MISSING_FROM) < stopped
        {
            shard.lost_at.get_or_insert(sent);
        }
    }

    fn say_interrupted(&mut self, sid: Sid, node: NodeId, why: &str) {
        let of = self.workflows.shards(sid.0 as usize).unwrap_or(1);
        let what = match self.spec.is_hook(sid) {
            true => "a setup or teardown".to_owned(),
            false => format!("1 of {of} shards of {}", self.workflows.name(sid.0 as usize)),
        };
        self.note(format!("worker {node} gave up {what}: {why}"), None);
    }

    /// The next attempt was about to be started when the end of the one before came: if it is
    /// final, there is none.
    ///
    /// One that is proposed already will be refused as settled, which has the same effect (see
    /// `attempt_refused`).
    fn settle_pending(
        &mut self,
        sid: Sid,
        status: AttemptStatus,
        report: Option<&EndReport>,
    ) -> bool {
        let Some(shard) = self.shards.get_mut(&sid) else { return true };
        let proposed = shard.step == Step::Proposed;
        match status {
            AttemptStatus::Stopped | AttemptStatus::Interrupted => return true,
            AttemptStatus::Failed => shard.error = report.and_then(|report| report.error.clone()),
            AttemptStatus::Completed => {
                let provided = report.map(|report| report.provided.clone()).unwrap_or_default();
                self.provide(sid, provided);
            }
        }
        if !proposed {
            self.set(sid, Step::Idle);
            self.leave_reservation(sid, false);
            self.settled(sid, status);
        }
        true
    }

    /// The ledger has the shard's result, although its attempt was taken for lost.
    pub(super) fn settled(&mut self, sid: Sid, status: AttemptStatus) {
        self.go(sid, State::Failed, "its report came before it was started again");
        if status == AttemptStatus::Completed {
            self.go(sid, State::Completed, "worker reported success");
            return self.never_mended(sid);
        }
        let error = self.shards.get(&sid).and_then(|shard| shard.error.clone());
        self.give_up(sid, error.unwrap_or_else(|| "it failed without a reason".to_owned()));
    }
}
