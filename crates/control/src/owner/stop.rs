//! Ends before their time: cancels, thresholds, time-outs, and shards whose workflow has failed.
//!
//! A stop that the owner decides is committed first (`StopJob`), so that a successor does not take
//! stopped shards for lost ones and start them again. A cancel is in the ledger already when it is
//! seen, see [`super::cancel`].

use fence::{Attempt, FenceRefusal, ShardKey};
use stats::StopReason;

use super::calls::Call;
use super::commits::Purpose;
use super::shard::{Shard, State, Step, Stopping};
use super::stages::{Kind, Stage, WaveStep};
use super::{Owner, Sid};
use crate::message::{StopMode, WorkerRefusal, WorkerResponse, lapse_of};
use ledger_state::{Command, StopCause};
use schedule::job::{self, WorkflowEnd};

impl Owner {
    pub(super) fn is_stopping(&self) -> bool {
        self.lifecycle.is_cancelled() || self.workflows.stop_reason() != StopReason::Finished
    }

    /// A failed shard of the workflow that was not just abandoned.
    pub(super) fn has_failed(&self, workflow: usize) -> bool {
        let failed = |s: &Shard| s.state() == State::FailedTerminal && !s.abandoned;
        workflow != self.spec.hook_number() as usize && self.shards.of(workflow).any(failed)
    }

    pub(super) fn threshold(&mut self, number: usize, reason: String) {
        let cause = StopCause::Threshold(u32::try_from(number).unwrap_or(u32::MAX));
        self.stop_for(cause, reason);
    }

    pub(super) fn abort(&mut self, shard: ShardKey, attempt: Attempt, reason: String) {
        let sid = (shard.workflow.0, shard.shard);
        let current = self.shards.get(&sid).is_some_and(|s| s.attempt() == attempt && s.is_out());
        if current && shard.job == self.spec.id() {
            self.stop_for(StopCause::Aborted, reason);
        } else {
            self.journal.count_late();
        }
    }

    pub(super) fn look_at_the_clock(&mut self) {
        self.look_at_cancel();
        if self.is_stopping()
            || self.lifecycle.is_stop_proposed()
            || self.lifecycle.outcome().is_some()
        {
            return;
        }
        if let Some(expired) = self.time.expired() {
            // What it waited for is the reason that helps.
            let waits = self.capacity.queued().map(|queued| format!("; {}", queued.why));
            let why = format!("{expired}{}", waits.unwrap_or_default());
            return self.stop_for(StopCause::Timeout, why);
        }
        if !self.shards.have_begun() && self.time.age() > self.spec.manifest().policy.queue_at_most
        {
            let waited = self.time.age().as_secs();
            let why = match self.capacity.queued() {
                Some(queued) => {
                    let super::Queued { needs, free, total, .. } = queued;
                    format!("needs {needs} cores, {free} of {total} are free: {}", queued.why)
                }
                None => "no cores were free".to_owned(),
            };
            self.fail(format!("waited {waited} s for cores; {why}"));
        }
    }

    /// The owner's own decision to end early.
    pub(super) fn stop_for(&mut self, cause: StopCause, reason: String) {
        if self.is_stopping()
            || self.lifecycle.is_stop_proposed()
            || self.lifecycle.outcome().is_some()
        {
            self.journal.count_repeat();
            return;
        }
        let short = self.spec.short(&reason);
        self.lifecycle.propose_stop(cause, reason);
        let (job, epoch, reason) = (self.spec.id(), self.spec.epoch(), short);
        self.outgoing.commit(Purpose::Stop, Command::StopJob { job, epoch, cause, reason });
    }

    /// The decision stands, or nobody knows yet whether it does: to stop is safe either way.
    pub(super) fn stop_committed(&mut self) {
        if self.lifecycle.is_recovering() {
            // Said to the machine when it has been brought up to date.
            self.recovery.own_stop_stands();
            return;
        }
        let Some((cause, reason)) = self.lifecycle.take_stop() else { return };
        self.note(format!("stopped: {reason}"), None);
        self.step_workflows(stop_event(cause, reason));
    }

    /// Nothing new starts, and what runs ends.
    pub(super) fn stop_all(&mut self) {
        let how = self.lifecycle.how();
        let reason = self.lifecycle.detail().to_owned();
        let mut never: Vec<usize> = self.stages.take_waiting();
        let placement = match self.stages.wave().map(|wave| &wave.step) {
            Some(WaveStep::Reserving(placement)) => Some(placement.clone()),
            Some(WaveStep::Provisioning(placement)) => Some(Some(placement.clone())),
            _ => None,
        };
        if let Some(placement) = &placement {
            let numbers = placement.iter().flat_map(|placement| &placement.reservations);
            numbers.for_each(|number| self.release(*number));
            self.stages.take_wave();
        }
        // A batch without a wave has not begun its load, unless only its teardowns are left.
        let idle = self.stages.wave().is_none()
            && self.stages.batch().is_some_and(|batch| batch.stage != Stage::Teardowns);
        if idle {
            never.extend(self.stages.take_batch().into_iter().flat_map(|batch| batch.workflows));
        }
        let setup_was_due = self.stages.take_setup();
        // What cleans up is left to do so.
        let running = self
            .stages
            .wave()
            .filter(|w| matches!(w.kind, Kind::Setup | Kind::Setups | Kind::Load));
        let members = running.map(|wave| wave.members.clone()).unwrap_or_default();
        for sid in members {
            self.halt(sid, how, &reason);
        }
        for workflow in never {
            let result = WorkflowEnd::Stopped;
            self.step_workflows(job::Event::WorkflowEnded { workflow, result });
        }
        if setup_was_due {
            self.step_workflows(job::Event::SetupEnded(Ok(())));
        }
    }

    /// Ends one shard, wherever it is on its way.
    pub(super) fn halt(&mut self, sid: Sid, how: StopMode, reason: &str) {
        let stopping = self.stopping(how, reason, sid);
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        match shard.step {
            Step::Idle | Step::Placed | Step::Lapsed => {
                shard.step = Step::Idle;
                self.leave_reservation(sid, false);
                self.go(sid, State::Cancelled, format!("not started: {reason}"));
            }
            // Whether its attempt exists is not known yet; the answer decides.
            Step::Proposed => {
                shard.stop.get_or_insert(stopping);
            }
            Step::Unsent => {
                self.go(sid, State::Cancelling, reason);
                self.never_ran(sid, reason);
            }
            Step::Sent | Step::Preparing | Step::Ready | Step::Begun | Step::Running => {
                let attempt = shard.attempt();
                let already = shard.stop.as_ref().is_some_and(|stop| stop.how >= how);
                if already {
                    return;
                }
                shard.stop = Some(stopping);
                shard.due = None;
                if shard.state() != State::Cancelling {
                    self.go(sid, State::Cancelling, reason);
                }
                self.send(Call::Stop(sid, attempt));
            }
            Step::Ending | Step::Revoking | Step::Lapsing(_) | Step::Over => {}
        }
    }

    /// A stop is graceful first, then by force. If the worker carries out neither, its attempt is
    /// revoked and the lease ends it.
    pub(super) fn look_at_stop(&mut self, sid: Sid) {
        let now = self.time.now();
        let Some(shard) = self.shards.get(&sid).filter(|shard| shard.is_out()) else { return };
        let Some(stop) = shard.stop.clone().filter(|stop| stop.until <= now) else { return };
        let attempt = shard.attempt();
        match stop.how {
            StopMode::Graceful => {
                let harder = Stopping {
                    since: stop.since,
                    ..self.stopping(StopMode::Now, &stop.reason, sid)
                };
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.stop = Some(harder);
                }
                self.outgoing.changed();
                self.send(Call::Stop(sid, attempt));
            }
            StopMode::Now => {
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.stop = None;
                }
                self.lose(sid, "its worker does not carry out the stop", None);
            }
        }
    }

    pub(super) fn stop_answered(
        &mut self,
        sid: Sid,
        attempt: Attempt,
        answer: WorkerResponse,
        retries: u32,
    ) {
        let Some(shard) = self.shards.get(&sid) else { return };
        let boot =
            shard.attempts.get(attempt.0 as usize - 1).map(|one| one.boot).unwrap_or_default();
        let current = shard.attempt() == attempt;
        match answer {
            WorkerResponse::Stopped { report: Some(report) } => {
                if (report.shard, report.attempt) != (shard.key, attempt) {
                    self.journal.count_mismatch();
                    return;
                }
                self.stop_proven(sid, attempt);
                self.report(*report);
            }
            // It may have seen a later step of this shard: what was before is over there.
            WorkerResponse::Stopped { report: None }
            | WorkerResponse::Refused(
                WorkerRefusal::UnknownAttempt | WorkerRefusal::Fence(FenceRefusal::Step(_)),
            ) => {
                if current {
                    self.nothing_runs(sid, attempt);
                }
            }
            // It was told; it ends in its own time, and says so. A lost one is asked again.
            WorkerResponse::Done => {
                if let Some(shard) = self.shards.get_mut(&sid).filter(|_| current) {
                    let lapsing = matches!(shard.step, Step::Revoking | Step::Lapsing(_));
                    if let Some(stop) = &mut shard.stop {
                        stop.acknowledged = true;
                    }
                    if lapsing {
                        self.retry(Call::Stop(sid, attempt), retries);
                    }
                }
            }
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::OtherLife {
                own,
                since,
                ..
            })) if own > boot => {
                if current {
                    let proof = lapse_of(boot, own, since);
                    let worker = self.shards.current(&sid).map(|t| t.worker);
                    if let Some(worker) = worker {
                        self.lose_worker(worker, boot, "has started again", proof);
                    }
                }
            }
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::Epoch(refusal))) => {
                self.depose(refusal.to_string());
            }
            other => {
                self.journal.count_mismatch();
                self.note(format!("a stop was answered with {other:?}"), None);
            }
        }
    }

    /// The worker of the last attempt says that nothing of it runs there.
    fn nothing_runs(&mut self, sid: Sid, attempt: Attempt) {
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        match shard.step {
            Step::Revoking | Step::Lapsing(_) => self.stop_proven(sid, attempt),
            // It sends nothing more, and what it has counted is in its report, which is on its way.
            // If that never comes, the time for the stop runs out.
            Step::Begun | Step::Running => {
                if let Some(stop) = &mut shard.stop {
                    stop.acknowledged = true;
                }
            }
            _ if shard.is_out() => self.never_ran(sid, "stopped before it ran"),
            _ => {}
        }
    }
}

pub(super) fn stop_event(cause: StopCause, reason: String) -> job::Event {
    match cause {
        StopCause::Timeout => job::Event::DeadlineReached,
        StopCause::Threshold(number) => {
            job::Event::StopRequested { reason: StopReason::Threshold(number as usize) }
        }
        StopCause::Aborted => job::Event::StopRequested { reason: StopReason::Aborted(reason) },
    }
}
