//! Questions of owners: judged at the door, answered once, repeated with the same answer.

use fence::{Act, Admission, Epoch, JobId, NodeId, Order, ShardKey};

use super::cores::Reserve;
use super::live::{Cause, Phase};
use super::{Effect, Job, Matter, Run, Worker};
use crate::message::{Answer, Ask, Halt, Hold, Refused, RowBlock};

/// Holds of a job that are remembered after their end.
const HOLDS_OVER_MAX: usize = 64;

impl Worker {
    pub(super) fn asked(&mut self, id: u64, from: NodeId, ask: Ask, out: &mut Vec<Effect>) {
        self.counts.asks += 1;
        let answer = match ask {
            Ask::Reserve { hold, receiver, cores, within } => self
                .install(receiver, hold.job, hold.epoch, from)
                .and_then(|()| self.reserve(hold, cores, within)),
            Ask::Release { hold, receiver } => {
                self.install(receiver, hold.job, hold.epoch, from).map(|()| {
                    if self.cores.release(&hold) {
                        self.hold_over(hold);
                    }
                    Answer::Done
                })
            }
            Ask::Dispatch(dispatch) => self.dispatch(dispatch, from, out),
            Ask::Start { job, epoch, receiver, attempts, after, elapsed, clock, steering } => self
                .install(receiver, job, epoch, from)
                .and_then(|()| self.steer(job, &steering, out))
                .and_then(|_| self.start(job, &attempts, after, (elapsed, clock))),
            Ask::Stop { order, how, reason } => {
                match self.stop(id, &order, how, reason, from, out) {
                    Some(answer) => answer,
                    // It is said when the attempt's thread has seen it.
                    None => return,
                }
            }
            Ask::Steer { job, epoch, receiver, steering } => self
                .install(receiver, job, epoch, from)
                .and_then(|()| self.steer(job, &steering, out)),
            Ask::Rows { shard, attempt, epoch, receiver, rows } => self
                .install(receiver, shard.job, epoch, from)
                .and_then(|()| self.rows(Run::new(shard, attempt), rows, out)),
            Ask::Units { shard, attempt, epoch, receiver, end } => self
                .install(receiver, shard.job, epoch, from)
                .and_then(|()| self.units(Run::new(shard, attempt), end, out)),
            Ask::Forget { shard, attempt } => {
                self.forget(Run::new(shard, attempt), out);
                Ok(Answer::Done)
            }
            Ask::Install { job, epoch, receiver } => self
                .install(receiver, job, epoch, from)
                .map(|()| Answer::Holding(Box::new(self.holdings(Some(job))))),
            Ask::Inspect { job } => Ok(Answer::Holding(Box::new(self.holdings(job)))),
        };
        let answer = answer.unwrap_or_else(|refused| {
            self.count_refusal(&refused);
            Answer::Refused(refused)
        });
        out.push(Effect::Answer { to: id, answer });
    }

    fn count_refusal(&mut self, refused: &Refused) {
        let counts = &mut self.counts;
        let counter = match refused {
            // The doorkeeper has its own.
            Refused::Fence(_) => return,
            Refused::NoCores { .. } => &mut counts.refused_no_cores,
            Refused::UnknownHold => &mut counts.refused_unknown_hold,
            Refused::UnknownAttempt => &mut counts.refused_unknown_attempt,
            Refused::OldContext { .. } => &mut counts.refused_old_context,
            Refused::Draining => &mut counts.refused_draining,
            Refused::DiskFull => &mut counts.refused_disk_full,
            Refused::TooMany { .. } => &mut counts.refused_too_many,
            Refused::CannotRun { .. } => &mut counts.refused_cannot_run,
        };
        *counter += 1;
    }

    /// A command that concerns a job, at the door. One that passes comes from the job's owner.
    fn install(
        &mut self,
        receiver: fence::BootId,
        job: JobId,
        epoch: Epoch,
        from: NodeId,
    ) -> Result<(), Refused> {
        self.make_room(job);
        self.door.install(receiver, job, epoch).map_err(Refused::Fence)?;
        self.led_by(job, epoch, from);
        Ok(())
    }

    /// The job is led under this epoch now. Holds of a replaced owner can no longer be dispatched to.
    pub(super) fn led_by(&mut self, job: JobId, epoch: Epoch, from: NodeId) {
        self.job(job);
        self.post.owner(job, from, self.now);
        let gone = self.cores.release_where(|hold, _| hold.job == job && hold.epoch < epoch);
        self.counts.holds_superseded += gone.len() as u64;
        for hold in gone {
            self.hold_over(hold);
        }
    }

    pub(super) fn job(&mut self, job: JobId) -> &mut Job {
        self.jobs.entry(job).or_default()
    }

    pub(super) fn hold_over(&mut self, hold: Hold) {
        let over = &mut self.job(hold.job).holds_over;
        if over.len() >= HOLDS_OVER_MAX {
            over.pop_front();
        }
        over.push_back(hold);
    }

    fn reserve(
        &mut self,
        hold: Hold,
        cores: u32,
        within: std::time::Duration,
    ) -> Result<Answer, Refused> {
        // A repeat that comes late must not hold cores for nobody.
        if self.job(hold.job).holds_over.contains(&hold) {
            return Err(Refused::UnknownHold);
        }
        if self.draining {
            return Err(Refused::Draining);
        }
        if self.disk_full {
            return Err(Refused::DiskFull);
        }
        let until = self.now.after(within.min(self.settings.times.hold_max));
        match self.cores.reserve(hold, cores, until, &self.taken()) {
            Reserve::Held | Reserve::Repeat => Ok(Answer::Done),
            Reserve::Differs => Err(Refused::UnknownHold),
            Reserve::NoCores { free } => {
                Err(Refused::NoCores { asked: cores, free, total: self.cores.total() })
            }
        }
    }

    pub(super) fn runs_of(&self, shard: ShardKey) -> Vec<Run> {
        let (first, last) = (fence::Attempt(0), fence::Attempt(u32::MAX));
        let range = Run::new(shard, first)..=Run::new(shard, last);
        self.live.range(range).map(|(run, _)| *run).collect()
    }

    /// The common start. The first word on it stands; attempts that have ended meanwhile do not hold the others up.
    fn start(
        &mut self,
        job: JobId,
        attempts: &[(ShardKey, fence::Attempt)],
        after: std::time::Duration,
        stand: (std::time::Duration, std::time::Duration),
    ) -> Result<Answer, Refused> {
        let at = self.now.after(after);
        let mut known = false;
        for (shard, attempt) in attempts.iter().filter(|(shard, _)| shard.job == job) {
            let run = Run::new(*shard, *attempt);
            if let Some(live) = self.live.get_mut(&run) {
                if live.start.is_none() {
                    live.start = Some(at);
                    (live.elapsed_at_start, live.clock_at_start) = stand;
                }
                self.post.settle(Matter::Ready(run));
                known = true;
            }
            known |= self.outbox.get(run).is_some();
        }
        if known { Ok(Answer::Done) } else { Err(Refused::UnknownAttempt) }
    }

    /// None: the answer comes later.
    fn stop(
        &mut self,
        id: u64,
        order: &Order,
        how: Halt,
        reason: String,
        from: NodeId,
        out: &mut Vec<Effect>,
    ) -> Option<Result<Answer, Refused>> {
        let run = Run::new(order.shard, order.step.attempt);
        self.make_room(order.shard.job);
        if order.step.act != Act::Stop {
            let why = format!("a stop says {}", order.step);
            return Some(Err(Refused::CannotRun { why }));
        }
        match self.door.admit(order) {
            Admission::Refused(refusal) => return Some(Err(Refused::Fence(refusal))),
            Admission::Enter | Admission::Repeat(()) | Admission::Busy => {}
        }
        self.door.answer(&order.shard, &order.step, ());
        self.led_by(order.shard.job, order.epoch, from);
        let reason = self.shortened(reason);
        // A repeat may be harder than the first; it is never softer.
        for lower in self.runs_of(order.shard) {
            let reason = reason.clone();
            self.halt(lower, Cause::Told { how, reason }, how, out);
        }
        let limit = self.settings.limits.waiters;
        match self.live.get_mut(&run) {
            None => {
                let report = self.outbox.get(run).cloned().map(Box::new);
                Some(Ok(Answer::Stopped { report }))
            }
            Some(live) if live.gate == super::live::Gate::Shut => {
                Some(Ok(Answer::Stopped { report: None }))
            }
            Some(live)
                if matches!(live.phase, Phase::Forced { .. }) && live.waiters.len() < limit =>
            {
                live.waiters.push(id);
                None
            }
            Some(_) => Some(Ok(Answer::Done)),
        }
    }

    fn rows(&mut self, run: Run, rows: RowBlock, out: &mut Vec<Effect>) -> Result<Answer, Refused> {
        let limit = self.settings.limits.row_blocks;
        let Some(live) = self.live.get_mut(&run) else { return Err(Refused::UnknownAttempt) };
        if live.rows_until.len() >= limit && !live.rows_until.contains_key(&rows.set) {
            let what = "data sets of one attempt".to_owned();
            return Err(Refused::TooMany { what, limit: limit as u64 });
        }
        if live.takes_rows(rows) {
            out.push(Effect::GiveRows { run, rows });
            self.post.settle(Matter::Rows(run, rows.set));
        } else {
            self.counts.rows_repeated += 1;
        }
        Ok(Answer::Done)
    }

    fn units(&mut self, run: Run, end: u64, out: &mut Vec<Effect>) -> Result<Answer, Refused> {
        if !self.live.contains_key(&run) {
            return Err(Refused::UnknownAttempt);
        }
        self.units_granted(run, Some(end), out);
        Ok(Answer::Done)
    }

    /// The report is durable elsewhere. What still runs has none yet, and will be told when it has.
    pub(super) fn forget(&mut self, run: Run, out: &mut Vec<Effect>) {
        if self.outbox.remove(run) {
            self.counts.reports_forgotten += 1;
            self.post.settle(Matter::Ended(run));
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
