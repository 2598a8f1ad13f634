//! Shards whose time has come: replaced, tried again, given up (R5a).

use super::commits::Purpose;
use super::manifest::OnWorkerLoss;
use super::shard::{State, Step, Stopping};
use super::stages::{Kind, WaveStep};
use super::{Effect, Owner, Sid};
use crate::message::StopMode;
use ledger_state::{AttemptStatus, Command, Counters, LapseProof, ReportedBy};

impl Owner {
    /// Timers of shards: proofs, preparing that takes too long, runs that do not end, stops that
    /// are not carried out.
    pub(super) fn look_at_shards(&mut self) {
        let now = self.time.now();
        let sids = self.shards.sids();
        let retries = self.spec.settings().retries as usize;
        for sid in sids {
            let Some(shard) = self.shards.get_mut(&sid) else { continue };
            // Its last retry was lost by hints, and its worker is there after all: its own report,
            // which is on its way, decides whether the retry was used.
            if let Step::Lapsing(handover) = &shard.step
                && handover.may_start(now) == Some(fence::Lapse::Stopped)
                && handover.next_at() > now
                && shard.retries_used() > retries
                && shard.current().is_some_and(|one| one.is_suspected() && one.end.is_none())
            {
                continue;
            }
            if let Step::Lapsing(handover) = &shard.step
                && let Some(lapse) = handover.may_start(now)
            {
                shard.proof = match lapse {
                    fence::Lapse::Stopped => LapseProof::Stopped,
                    fence::Lapse::HigherBoot(boot) => LapseProof::HigherBoot(boot),
                    fence::Lapse::LeaseLapsed => LapseProof::LeaseLapsed,
                };
                shard.step = Step::Lapsed;
                self.outgoing.changed();
            }
            if shard.step == Step::Lapsed {
                self.replace(sid);
                continue;
            }
            self.look_at_stop(sid);
            self.look_at_due(sid);
        }
    }

    fn look_at_due(&mut self, sid: Sid) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let standing = self.control.is_paused() && shard.step == Step::Running;
        if standing || shard.due.is_none_or(|due| due > self.time.now()) {
            return;
        }
        shard.due = None;
        let seconds = self.spec.settings().ready_within.as_secs();
        match shard.step {
            Step::Sent | Step::Unsent | Step::Preparing => {
                self.lose(sid, &format!("not ready within {seconds} s"), None);
            }
            // Its worker lives, but it does not end. It is stopped and has failed for good: another
            // attempt would run past its time as well.
            Step::Begun | Step::Running if shard.state() != State::Cancelling => {
                shard.error = Some("no result: it did not end when its time was over".to_owned());
                shard.overdue = true;
                self.lose(sid, "no result in time", None);
            }
            Step::Idle => {
                let seconds = self.spec.settings().place_within.as_secs();
                self.give_up(
                    sid,
                    format!("no eligible worker had a core for it within {seconds} s"),
                );
            }
            _ => {}
        }
    }

    /// The attempt before has provably stopped: what now?
    fn replace(&mut self, sid: Sid) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let (attempt, state, key) = (shard.attempt(), shard.state(), shard.key);
        let word = self.reports.get(sid, attempt);
        if word.is_some_and(|report| report.status.is_final()) {
            // It had come to its end after all, and has counted what it left. When the ledger has
            // that, it settles the shard; another attempt would count the same again.
            return;
        }
        let unheard = shard.current().is_some_and(|one| one.end.is_none() && !one.reporting);
        let may_have_run = shard.current().is_some_and(|one| one.may_run);
        let (proof, used) = (shard.proof, shard.retries_used());
        if unheard && proof == LapseProof::LeaseLapsed && self.reports.seal(sid, attempt) {
            // Its worker is gone. What is known of it is made durable now; its own report, if it
            // ever comes, is added.
            self.outgoing.push(Effect::Seal { shard: key, attempt, may_have_run });
            self.outgoing.changed();
        }
        if state == State::Cancelling {
            self.go(sid, State::Cancelled, format!("stopped: {proof:?}"));
            return;
        }
        let shard = self.shards.get(&sid);
        let failed = shard.and_then(|shard| shard.error.clone());
        let overdue = shard.is_some_and(|shard| shard.overdue);
        if overdue {
            return self.give_up(sid, failed.unwrap_or_default());
        }
        if self.is_stopping() && !self.tears_down(sid) || self.has_failed(sid.0 as usize) {
            self.go(sid, State::Cancelled, "not started again: it is being stopped");
            return;
        }
        if self.load_has_begun(sid) {
            match self.spec.manifest().policy.on_worker_loss {
                OnWorkerLoss::Rebalance => {}
                OnWorkerLoss::Continue => {
                    if let Some(shard) = self.shards.get_mut(&sid) {
                        shard.abandoned = true;
                    }
                    self.go(sid, State::FailedTerminal, "on_worker_loss: continue");
                    return self.never_mended(sid);
                }
                OnWorkerLoss::Fail => {
                    let why = "its worker was lost (on_worker_loss: fail)".to_owned();
                    self.give_up(sid, why.clone());
                    return self.fail(why);
                }
            }
        }
        if used > self.spec.settings().retries as usize {
            let retries = self.spec.settings().retries;
            let last = failed.unwrap_or_else(|| "its worker was lost".to_owned());
            return self.give_up(sid, format!("{last}; {retries} retries were made"));
        }
        self.start_again(sid, &format!("{proof:?}"));
    }

    fn start_again(&mut self, sid: Sid, why: &str) {
        let by = self.time.after(self.spec.settings().place_within);
        // Each attempt counts. Whoever refuses one now may take it in a moment, when it has heard
        // what others have.
        let refused = self.shards.get(&sid).map_or(0, |shard| shard.placing.refused);
        let again = (refused > 0).then(|| self.backoff(refused + 1));
        if self.go(sid, State::Pending, format!("to be started again: {why}"))
            && let Some(shard) = self.shards.get_mut(&sid)
        {
            shard.step = Step::Idle;
            shard.stop = None;
            shard.due = Some(by);
            shard.placing.retry_at = again;
            shard.placing.tries = 0;
        }
    }

    fn load_has_begun(&self, sid: Sid) -> bool {
        let wave = self.stages.wave().filter(|wave| wave.members.contains(&sid));
        wave.is_some_and(|wave| wave.kind == Kind::Load && wave.step == WaveStep::Running)
    }

    /// The shard has failed for good, and its workflow with it.
    pub(super) fn give_up(&mut self, sid: Sid, text: String) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        shard.error = Some(text.clone());
        let state = shard.state();
        self.leave_reservation(sid, false);
        if state != State::Failed {
            self.go(sid, State::Failed, text.clone());
        }
        self.go(sid, State::FailedTerminal, text);
        self.never_mended(sid);
        self.stop_siblings(sid);
    }

    /// R5: an error of one shard is the workflow's; the others need not go on.
    pub(super) fn stop_siblings(&mut self, sid: Sid) {
        if self.spec.is_hook(sid) {
            return;
        }
        let others = self.shards.sids_of(sid.0);
        for other in others {
            self.halt(other, StopMode::Graceful, "another shard of the workflow has failed");
        }
    }

    /// An attempt of which it is certain that it never ran and never will: its end is said by the
    /// owner.
    pub(super) fn never_ran(&mut self, sid: Sid, why: &str) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        let attempt = shard.attempt();
        let (key, cancelling) = (shard.key, shard.state() == State::Cancelling);
        let Some(one) = shard.attempts.last_mut() else { return };
        (one.reporting, one.known) = (true, true);
        shard.step = Step::Ending;
        shard.due = None;
        shard.stop = shard.stop.take().filter(|_| cancelling);
        self.leave_reservation(sid, false);
        if !cancelling {
            self.go(sid, State::Failed, why);
        }
        let command = Command::EndAttempt {
            under: Some(self.spec.epoch()),
            shard: key,
            attempt,
            status: AttemptStatus::Stopped,
            counters: Counters::default(),
            result: None,
            sent_until_ms: None,
            word: ReportedBy::Whole,
        };
        self.outgoing.commit(Purpose::End(sid, attempt), command);
        self.outgoing.push(Effect::NeverRan { shard: key, attempt });
    }

    pub(super) fn stopping(&self, how: StopMode, reason: &str, sid: Sid) -> Stopping {
        let graceful = self.spec.part(sid.0 as usize).map(|part| part.graceful_stop);
        let patience = match how {
            StopMode::Graceful => graceful.unwrap_or_default() + self.spec.settings().stop_within,
            StopMode::Now => self.spec.settings().stop_within,
        };
        let until = self.time.after(patience);
        Stopping {
            how,
            reason: reason.to_owned(),
            since: self.time.age(),
            until,
            acknowledged: false,
        }
    }
}
