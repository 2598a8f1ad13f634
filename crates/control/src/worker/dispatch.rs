//! A dispatch: judged at the fence, given a core of its own, or a share of one in a retry.

use fence::{Act, Admission, FencedCommand, NodeId, ShardKey};

use super::local_attempt::{EndCause, LocalAttempt};
use super::{Effect, Worker};
use crate::message::{Dispatch, Placement, StopMode, WorkerRefusal, WorkerResponse};
use ledger_state::Payload;

impl Worker {
    /// Whether this order is news that the fence would let in. What is not, goes to the fence for
    /// its answer.
    fn is_news(&self, order: &FencedCommand) -> bool {
        let known = self.fence.epoch(&order.shard.job);
        order.receiver == self.settings.boot
            && order.epoch.group.cluster == self.settings.cluster
            && known.is_none_or(|known| known <= order.epoch)
            && self.fence.step(&order.shard).is_none_or(|known| known < order.step)
    }

    pub(super) fn dispatch(
        &mut self,
        dispatch: Box<Dispatch>,
        from: NodeId,
        out: &mut Vec<Effect>,
    ) -> Result<WorkerResponse, WorkerRefusal> {
        let order = dispatch.order;
        self.make_room(order.shard.job);
        if self.is_news(&order) {
            self.judge_dispatch(&dispatch)?;
        }
        match self.fence.admit(&order) {
            Admission::Refused(refusal) => return Err(WorkerRefusal::Fence(refusal)),
            Admission::Repeat(()) | Admission::Busy => {
                self.led_by(order.shard.job, order.epoch, from);
                return Ok(WorkerResponse::Done);
            }
            Admission::Enter => {}
        }
        self.fence.answer(&order.shard, &order.step, ());
        let lower = self.runs_of(order.shard);
        for run in lower {
            self.counts.superseded += 1;
            self.halt(run, EndCause::Superseded, StopMode::Now, out);
        }
        // The placement was judged before the fence; taking it comes after, when the epoch is the
        // job's.
        let core = match dispatch.placement {
            Placement::Own(hold) => {
                let core = self.cores.take(&hold, &self.taken());
                if !self.cores.has(&hold) {
                    self.hold_over(hold);
                }
                core
            }
            Placement::Shared => self.share(order.shard),
        };
        self.led_by(order.shard.job, order.epoch, from);
        let Some(core) = core else {
            debug_assert!(false, "the placement of {} was judged and is gone", order.shard);
            return Err(WorkerRefusal::UnknownReservation);
        };
        self.let_in(dispatch, core, out);
        Ok(WorkerResponse::Done)
    }

    fn let_in(&mut self, dispatch: Box<Dispatch>, core: super::CoreLease, out: &mut Vec<Effect>) {
        let job = self.job(dispatch.order.shard.job);
        job.context_seen = job.context_seen.max(dispatch.context_version);
        job.idle_since = None;
        self.limit_time(&dispatch);
        self.counts.attempts_let_in += 1;
        let local_attempt =
            LocalAttempt::new(dispatch, core, self.now.after(self.settings.times.prepare));
        let run = local_attempt.run;
        self.attempts.insert(run, local_attempt);
        self.fetch(run, out);
    }

    /// Everything that can be wrong with a dispatch beside its fence. Changes nothing.
    fn judge_dispatch(&self, dispatch: &Dispatch) -> Result<(), WorkerRefusal> {
        let limits = &self.settings.limits;
        let order = &dispatch.order;
        if self.draining {
            return Err(WorkerRefusal::Draining);
        }
        if order.step.act != Act::Start {
            return Err(WorkerRefusal::CannotRun {
                why: format!("a dispatch says {}", order.step),
            });
        }
        let seen = self.jobs.get(&order.shard.job).map_or(0, |job| job.context_seen);
        if dispatch.context_version < seen {
            return Err(WorkerRefusal::OldContext { seen });
        }
        if dispatch.lease.is_zero() {
            return Err(WorkerRefusal::CannotRun { why: "a lease of no length".into() });
        }
        let too_many =
            |what: &str, limit: u64| Err(WorkerRefusal::TooMany { what: what.to_owned(), limit });
        if dispatch.lease > limits.lease {
            return too_many("seconds of lease", limits.lease.as_secs());
        }
        if dispatch.rows.len() > limits.row_blocks {
            return too_many("blocks of rows", limits.row_blocks as u64);
        }
        if let Payload::Inline(bytes) = &dispatch.context
            && bytes.len() as u64 > limits.context_bytes
        {
            return too_many("bytes of context", limits.context_bytes);
        }
        if self.outbox.len() + self.attempts.len() >= limits.outbox_reports {
            return too_many("reports that nobody has acknowledged", limits.outbox_reports as u64);
        }
        let attempts = self.attempts.len() as u64 + 1;
        if !self.outbox.has_room(attempts, limits.report_floor) {
            return too_many("bytes of reports that nobody has acknowledged", limits.outbox_bytes);
        }
        match dispatch.placement {
            Placement::Own(hold) => {
                let its = hold.job == order.shard.job && hold.epoch == order.epoch;
                if its && self.cores.has(&hold) {
                    Ok(())
                } else {
                    Err(WorkerRefusal::UnknownReservation)
                }
            }
            Placement::Shared => match self.share(order.shard) {
                Some(_) => Ok(()),
                None => {
                    let (free, total) = (self.cores.free(&self.taken()), self.cores.total());
                    Err(WorkerRefusal::NoCores { asked: 1, free, total })
                }
            },
        }
    }

    /// A share of a core on which only attempts of this shard's workflow sit (R14).
    fn share(&self, shard: ShardKey) -> Option<super::CoreLease> {
        let mut occupants = std::collections::BTreeMap::new();
        for local_attempt in self.attempts.values() {
            let same = (local_attempt.run.shard.job, local_attempt.run.shard.workflow)
                == (shard.job, shard.workflow);
            if same && local_attempt.run.shard != shard {
                *occupants.entry(local_attempt.core.core()).or_default() += 1;
            }
        }
        // An attempt of the shard itself that is on its way out still counts, and so does a thread
        // that did not end.
        for local_attempt in
            self.attempts.values().filter(|local_attempt| local_attempt.run.shard == shard)
        {
            occupants.entry(local_attempt.core.core()).and_modify(|count| *count += 1);
        }
        for core in self.stuck.values() {
            occupants.remove(&core.core());
        }
        super::Cores::share(&occupants, self.settings.share_max)
    }
}
