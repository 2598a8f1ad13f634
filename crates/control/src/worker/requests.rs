//! Questions of owners: judged at the fence, answered once, repeated with the same answer.

use fence::{Act, Admission, Epoch, FencedCommand, JobId, NodeId, ShardKey};

use super::cores::Reserve;
use super::local_attempt::{EndCause, Phase};
use super::{Effect, Job, ReportKey, Run, Worker};
use crate::message::{
    ReservationId, RowBlock, StopMode, WorkerRefusal, WorkerRequest, WorkerResponse,
};

/// Holds of a job that are remembered after their end.
const HOLDS_OVER_MAX: usize = 64;

impl Worker {
    pub(super) fn take_request(
        &mut self,
        id: u64,
        from: NodeId,
        request: WorkerRequest,
        out: &mut Vec<Effect>,
    ) {
        self.counts.requests += 1;
        let answer = match request {
            WorkerRequest::Reserve { hold, receiver, cores, within } => self
                .install(receiver, hold.job, hold.epoch, from)
                .and_then(|()| self.reserve(hold, cores, within)),
            WorkerRequest::Release { hold, receiver } => {
                self.install(receiver, hold.job, hold.epoch, from).map(|()| {
                    if self.cores.release(&hold) {
                        self.hold_over(hold);
                    }
                    WorkerResponse::Done
                })
            }
            WorkerRequest::Dispatch(dispatch) => self.dispatch(dispatch, from, out),
            WorkerRequest::Start {
                job,
                epoch,
                receiver,
                attempts,
                after,
                elapsed,
                clock,
                steering,
            } => self
                .install(receiver, job, epoch, from)
                .and_then(|()| self.steer(job, &steering, out))
                .and_then(|_| self.start(job, &attempts, after, (elapsed, clock))),
            WorkerRequest::Stop { order, how, reason } => {
                match self.stop(id, &order, how, reason, from, out) {
                    Some(answer) => answer,
                    // It is said when the attempt's thread has seen it.
                    None => return,
                }
            }
            WorkerRequest::Steer { job, epoch, receiver, steering } => self
                .install(receiver, job, epoch, from)
                .and_then(|()| self.steer(job, &steering, out)),
            WorkerRequest::Rows { shard, attempt, epoch, receiver, rows } => self
                .install(receiver, shard.job, epoch, from)
                .and_then(|()| self.rows(Run::new(shard, attempt), rows, out)),
            WorkerRequest::Units { shard, attempt, epoch, receiver, end } => self
                .install(receiver, shard.job, epoch, from)
                .and_then(|()| self.units(Run::new(shard, attempt), end, out)),
            WorkerRequest::Forget { shard, attempt } => {
                self.forget(Run::new(shard, attempt), out);
                Ok(WorkerResponse::Done)
            }
            WorkerRequest::Install { job, epoch, receiver } => self
                .install(receiver, job, epoch, from)
                .map(|()| WorkerResponse::Holding(Box::new(self.holdings(Some(job))))),
            WorkerRequest::Inspect { job } => {
                Ok(WorkerResponse::Holding(Box::new(self.holdings(job))))
            }
        };
        let answer = answer.unwrap_or_else(|refused| {
            self.count_refusal(&refused);
            WorkerResponse::Refused(refused)
        });
        out.push(Effect::Respond { to: id, answer });
    }

    fn count_refusal(&mut self, refused: &WorkerRefusal) {
        let counts = &mut self.counts;
        let counter = match refused {
            // The fence counts its own.
            WorkerRefusal::Fence(_) => return,
            WorkerRefusal::NoCores { .. } => &mut counts.refused_no_cores,
            WorkerRefusal::UnknownReservation => &mut counts.refused_unknown_hold,
            WorkerRefusal::UnknownAttempt => &mut counts.refused_unknown_attempt,
            WorkerRefusal::OldContext { .. } => &mut counts.refused_old_context,
            WorkerRefusal::Draining => &mut counts.refused_draining,
            WorkerRefusal::DiskFull => &mut counts.refused_disk_full,
            WorkerRefusal::TooMany { .. } => &mut counts.refused_too_many,
            WorkerRefusal::CannotRun { .. } => &mut counts.refused_cannot_run,
        };
        *counter += 1;
    }

    /// A command that concerns a job, at the fence. One that passes comes from the job's owner.
    fn install(
        &mut self,
        receiver: fence::BootId,
        job: JobId,
        epoch: Epoch,
        from: NodeId,
    ) -> Result<(), WorkerRefusal> {
        self.make_room(job);
        self.fence.install(receiver, job, epoch).map_err(WorkerRefusal::Fence)?;
        self.led_by(job, epoch, from);
        Ok(())
    }

    /// The job is led under this epoch now. Holds of a replaced owner can no longer be dispatched
    /// to.
    pub(super) fn led_by(&mut self, job: JobId, epoch: Epoch, from: NodeId) {
        self.job(job);
        self.report_queue.owner(job, from, self.now);
        let gone = self.cores.release_where(|hold, _| hold.job == job && hold.epoch < epoch);
        self.counts.holds_superseded += gone.len() as u64;
        for hold in gone {
            self.hold_over(hold);
        }
    }

    pub(super) fn job(&mut self, job: JobId) -> &mut Job {
        self.jobs.entry(job).or_default()
    }

    pub(super) fn hold_over(&mut self, hold: ReservationId) {
        let over = &mut self.job(hold.job).holds_over;
        if over.len() >= HOLDS_OVER_MAX {
            over.pop_front();
        }
        over.push_back(hold);
    }

    fn reserve(
        &mut self,
        hold: ReservationId,
        cores: u32,
        within: std::time::Duration,
    ) -> Result<WorkerResponse, WorkerRefusal> {
        // A repeat that comes late must not hold cores for nobody.
        if self.job(hold.job).holds_over.contains(&hold) {
            return Err(WorkerRefusal::UnknownReservation);
        }
        if self.draining {
            return Err(WorkerRefusal::Draining);
        }
        if self.disk_full {
            return Err(WorkerRefusal::DiskFull);
        }
        let until = self.now.after(within.min(self.settings.times.hold_max));
        match self.cores.reserve(hold, cores, until, &self.taken()) {
            Reserve::HeldAttempt | Reserve::Repeat => Ok(WorkerResponse::Done),
            Reserve::Differs => Err(WorkerRefusal::UnknownReservation),
            Reserve::NoCores { free } => {
                Err(WorkerRefusal::NoCores { asked: cores, free, total: self.cores.total() })
            }
        }
    }

    pub(super) fn runs_of(&self, shard: ShardKey) -> Vec<Run> {
        let (first, last) = (fence::Attempt(0), fence::Attempt(u32::MAX));
        let range = Run::new(shard, first)..=Run::new(shard, last);
        self.attempts.range(range).map(|(run, _)| *run).collect()
    }

    /// The common start. The first word on it stands; attempts that have ended meanwhile do not
    /// hold the others up.
    fn start(
        &mut self,
        job: JobId,
        attempts: &[(ShardKey, fence::Attempt)],
        after: std::time::Duration,
        stand: (std::time::Duration, std::time::Duration),
    ) -> Result<WorkerResponse, WorkerRefusal> {
        let at = self.now.after(after);
        let mut known = false;
        for (shard, attempt) in attempts.iter().filter(|(shard, _)| shard.job == job) {
            let run = Run::new(*shard, *attempt);
            if let Some(local_attempt) = self.attempts.get_mut(&run) {
                if local_attempt.start.is_none() {
                    local_attempt.start = Some(at);
                    (local_attempt.elapsed_at_start, local_attempt.clock_at_start) = stand;
                }
                self.report_queue.settle(ReportKey::Ready(run));
                known = true;
            }
            known |= self.outbox.get(run).is_some();
        }
        if known { Ok(WorkerResponse::Done) } else { Err(WorkerRefusal::UnknownAttempt) }
    }

    /// None: the answer comes later.
    fn stop(
        &mut self,
        id: u64,
        order: &FencedCommand,
        how: StopMode,
        reason: String,
        from: NodeId,
        out: &mut Vec<Effect>,
    ) -> Option<Result<WorkerResponse, WorkerRefusal>> {
        let run = Run::new(order.shard, order.step.attempt);
        self.make_room(order.shard.job);
        if order.step.act != Act::Stop {
            let why = format!("a stop says {}", order.step);
            return Some(Err(WorkerRefusal::CannotRun { why }));
        }
        match self.fence.admit(order) {
            Admission::Refused(refusal) => return Some(Err(WorkerRefusal::Fence(refusal))),
            Admission::Enter | Admission::Repeat(()) | Admission::Busy => {}
        }
        self.fence.answer(&order.shard, &order.step, ());
        self.led_by(order.shard.job, order.epoch, from);
        let reason = self.shortened(reason);
        // A repeat may be harder than the first; it is never softer.
        for lower in self.runs_of(order.shard) {
            let reason = reason.clone();
            self.halt(lower, EndCause::Ordered { how, reason }, how, out);
        }
        let limit = self.settings.limits.waiters;
        match self.attempts.get_mut(&run) {
            None => {
                let report = self.outbox.get(run).cloned().map(Box::new);
                Some(Ok(WorkerResponse::Stopped { report }))
            }
            Some(local_attempt)
                if local_attempt.gate == super::local_attempt::PermitState::Shut =>
            {
                Some(Ok(WorkerResponse::Stopped { report: None }))
            }
            Some(local_attempt)
                if matches!(local_attempt.phase, Phase::Forced { .. })
                    && local_attempt.waiters.len() < limit =>
            {
                local_attempt.waiters.push(id);
                None
            }
            Some(_) => Some(Ok(WorkerResponse::Done)),
        }
    }

    fn rows(
        &mut self,
        run: Run,
        rows: RowBlock,
        out: &mut Vec<Effect>,
    ) -> Result<WorkerResponse, WorkerRefusal> {
        let limit = self.settings.limits.row_blocks;
        let Some(local_attempt) = self.attempts.get_mut(&run) else {
            return Err(WorkerRefusal::UnknownAttempt);
        };
        if local_attempt.rows_until.len() >= limit
            && !local_attempt.rows_until.contains_key(&rows.set)
        {
            let what = "data sets of one attempt".to_owned();
            return Err(WorkerRefusal::TooMany { what, limit: limit as u64 });
        }
        if local_attempt.takes_rows(rows) {
            out.push(Effect::GiveRows { run, rows });
            self.report_queue.settle(ReportKey::Rows(run, rows.set));
        } else {
            self.counts.rows_repeated += 1;
        }
        Ok(WorkerResponse::Done)
    }

    fn units(
        &mut self,
        run: Run,
        end: u64,
        out: &mut Vec<Effect>,
    ) -> Result<WorkerResponse, WorkerRefusal> {
        if !self.attempts.contains_key(&run) {
            return Err(WorkerRefusal::UnknownAttempt);
        }
        self.units_granted(run, Some(end), out);
        Ok(WorkerResponse::Done)
    }

    /// The report is durable elsewhere. What still runs has none yet, and will be told when it has.
    pub(super) fn forget(&mut self, run: Run, out: &mut Vec<Effect>) {
        if self.outbox.remove(run) {
            self.counts.reports_forgotten += 1;
            self.report_queue.settle(ReportKey::Ended(run));
            out.push(Effect::Remove { run });
        }
    }

    pub(super) fn shortened(&self, mut text: String) -> String {
        let mut end = self.settings.limits.text_bytes;
        if text.len() > end {
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        text
    }
}
