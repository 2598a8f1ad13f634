//! A worker as a machine: cores, attempts, leases, and the last word on each attempt.
//!
//! ```text
//! manager ──WorkerRequest──▶ fence ──▶ cores ──▶ attempt ──Fetch, Prepare, Start, StopMode, Kill──▶ engine
//!    ▲  ▲                                     │  ▲ ╰──ExtendPermit, WithdrawPermit──▶ the gate before every send
//!    │  ╰──────────RenewRequest, every L/4───────────╯  ╰── Prepared, Progress, Ended
//!    ╰──WorkerReport: Ready, RowsWanted, Abort, Ended ◀── outbox (files) ◀── report
//! ```
//!
//! `step(event, now)` is the whole interface; the shell carries the effects out in their order. The
//! clock is looked at before the event: what has run out while the process stood still is over,
//! whatever lies in its inbox.
//!
//! **What is refused leaves no trace** but a counter. A command is judged completely before it
//! enters the fence, so the same one can be sent again when what was missing is there.
//!
//! **No contact is no licence.** There is no search for orphans here. An attempt whose job no
//! manager knows is refused its renewal and stops at once; one that reaches no manager is not
//! renewed and stops when its lease runs out, by the gate before every send, which needs neither
//! this machine nor a network. A hold has its own end, an attempt that is never started has a
//! deadline, and one that does not end is stopped by force, killed, and in the end given up with
//! its permit withdrawn. So whatever happens to the managers, everything here ends by itself within
//! bounded time, and the managers need no list of workers to clean up. Scans (GATE-107) only find
//! out sooner.
//!
//! **Why a stop is acknowledged late.** `Stopped` is a licence to start the next attempt at once.
//! It is therefore said when the attempt's own thread has seen its permit withdrawn, not when the
//! gate was shut: between the two a send may be under way that was checked before. If the thread
//! does not answer, the caller hears `Done`, and R4's wait decides.
//!
//! **Invariant:** held + taken <= total cores, and every core is given back when its attempt's
//! thread has ended. **Invariant:** every attempt that was let in is here, or its report is in the
//! outbox, or its owner said `Forget`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fence::{BootId, CommandFence, JobId, Moment};

mod cores;
mod counts;
mod dispatch;
pub mod invariant;
mod life;
mod local_attempt;
mod message;
mod recover;
mod renewal;
mod report_queue;
mod requests;
mod settings;
mod steer;
mod sweep;
mod time;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod testing;

pub use counts::{Counts, Figures};
pub use message::{Effect, EngineEnd, EngineEndKind, Event, IssuedFile, Progress, Run};
pub use settings::{BadSettings, Limits, Settings, Times};

use super::message::{AttemptPhase, HeldAttempt, Renewal, WorkerInventory, WorkerReport};
use super::outbox::Outbox;
use cores::{CoreLease, Cores};
use local_attempt::LocalAttempt;
use renewal::Renewals;
use report_queue::{AckOutcome, ReportBody, ReportKey, ReportQueue};
use steer::Steered;

/// What a worker remembers of a job beside its attempts.
#[derive(Debug, Default)]
struct Job {
    /// How many layers' contexts the newest dispatch knew.
    context_seen: u32,
    steered: Steered,
    /// Holds that are over: the same one cannot begin again. The oldest are forgotten.
    holds_over: VecDeque<super::message::ReservationId>,
    /// Since when nothing of it is here.
    idle_since: Option<Moment>,
    /// When more time is asked for next, if its time is limited; and how much was done the last
    /// time.
    more_time: Option<(Moment, u64)>,
}

/// One worker, in one life.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    /// The latest moment that was handed in. Time that goes back is taken for standing still.
    now: Moment,
    fence: CommandFence<()>,
    cores: Cores,
    attempts: BTreeMap<Run, LocalAttempt>,
    /// Cores of threads that did not end. They come back when the thread does.
    stuck: BTreeMap<Run, CoreLease>,
    jobs: BTreeMap<JobId, Job>,
    outbox: Outbox,
    report_queue: ReportQueue,
    renewals: Renewals,
    draining: bool,
    disk_full: bool,
    drained: bool,
    swept: Moment,
    counts: Counts,
    work_done: u64,
}

impl Worker {
    fn empty(settings: Settings) -> Self {
        let limits = &settings.limits;
        Self {
            fence: CommandFence::new(settings.boot, settings.cluster, limits.jobs, limits.shards)
                .outliving(settings.since),
            cores: Cores::new(settings.cores),
            outbox: Outbox::new(limits.outbox_bytes),
            settings,
            now: Moment::default(),
            attempts: BTreeMap::new(),
            stuck: BTreeMap::new(),
            jobs: BTreeMap::new(),
            report_queue: ReportQueue::default(),
            renewals: Renewals::default(),
            draining: false,
            disk_full: false,
            drained: false,
            swept: Moment::default(),
            counts: Counts::default(),
            work_done: 0,
        }
    }

    /// Something has happened. What is to be done, in this order.
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        self.now = self.now.max(now);
        let mut out = Vec::new();
        self.expire(&mut out);
        self.take(event, &mut out);
        self.move_on(&mut out);
        debug_assert_eq!(invariant::check(self), Ok(()));
        out
    }

    fn take(&mut self, event: Event, out: &mut Vec<Effect>) {
        let now = self.now;
        match event {
            Event::Requested { id, from, request } => self.take_request(id, from, request, out),
            Event::DiskFull(full) => self.disk_full = full,
            Event::Managers(managers) => self.renewals.managers(managers, now),
            Event::Fetched { run, result } => self.fetched(run, result, out),
            Event::Prepared { run, graceful_stop } => self.prepared(run, graceful_stop),
            Event::Progress { run, progress } => self.progressed(run, progress),
            Event::RowsWanted { run, set, at_least } => self.rows_wanted(run, set, at_least, out),
            Event::Abort { run, reason } => self.abort(run, reason),
            Event::PermitWithdrawn { run } => self.gate_shut(run, out),
            Event::Ended { run, end } => self.ended(run, end, out),
            Event::Abandoned { run, progress, totals } => {
                self.progressed(run, progress);
                self.leaves(run, totals);
                self.abandon(run, out);
            }
            Event::RenewalAnswered { number, answers } => {
                let Some(tickets) = self.renewals.answered(number) else { return };
                for (shard, attempt, renewal) in answers {
                    let run = Run::new(shard, attempt);
                    match (renewal, tickets.get(&run)) {
                        (Renewal::Granted { units_end, steering }, Some(ticket)) => {
                            if let Some(steering) = steering {
                                self.follow(shard.job, &steering, out);
                            }
                            self.granted(run, ticket, out);
                            self.units_granted(run, units_end, out);
                        }
                        (Renewal::Refused { why }, Some(_)) => self.renewal_refused(run, why, out),
                        // It was not asked for, so it says nothing.
                        (_, None) => self.counts.events_unknown += 1,
                    }
                }
            }
            Event::RenewalFailed { number } => {
                let failed = self.renewals.failed(number, now, self.renewal_pause());
                self.counts.renewals_failed += u64::from(failed);
            }
            Event::ReportAnswered { number, ack } => {
                match self.report_queue.answered(number, ack, now, &self.settings.times) {
                    AckOutcome::Unclaimed(ReportKey::Ended(run)) => {
                        self.counts.reports_unclaimed += 1;
                        self.outbox.remove(run);
                        out.push(Effect::Remove { run });
                    }
                    AckOutcome::Settled(ReportKey::Ended(run)) => self.forget(run, out),
                    AckOutcome::Unclaimed(_) | AckOutcome::Settled(_) | AckOutcome::Nothing => {}
                }
            }
            Event::ReportFailed { number } => {
                let failed = self.report_queue.failed(number, now, &self.settings.times);
                self.counts.tells_failed += u64::from(failed);
            }
            Event::Stored { run, result } => {
                self.counts.store_failures += u64::from(result.is_err());
                let again = now.after(self.settings.times.store_again);
                self.outbox.stored(run, result.is_ok(), again);
            }
            Event::Drain => self.drain(),
            Event::Shutdown => {
                self.drain();
                let runs: Vec<Run> = self.attempts.keys().copied().collect();
                for run in runs {
                    self.halt(
                        run,
                        local_attempt::EndCause::Leaving,
                        super::message::StopMode::Now,
                        out,
                    );
                }
            }
            Event::Tick => {}
        }
    }

    /// Takes no more: holds end, owners of what runs are told.
    fn drain(&mut self) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        for hold in self.cores.release_where(|_, _| true) {
            self.hold_over(hold);
        }
        let jobs: BTreeSet<JobId> = self.attempts.keys().map(|run| run.shard.job).collect();
        for job in jobs {
            let report =
                WorkerReport::Draining { worker: self.settings.node, boot: self.settings.boot };
            self.report_queue.push(ReportKey::Draining(job), ReportBody::Small(report), self.now);
        }
    }

    /// When the shell has to hand in a [`Event::Tick`] if nothing else happens before.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        let phases = self
            .attempts
            .values()
            .filter_map(|local_attempt| local_attempt.phase_due(self.is_paused(local_attempt.run)));
        let leases = self.attempts.values().filter_map(|local_attempt| local_attempt.lease.until());
        let others = [
            self.more_time_due(),
            self.cores.next_due(),
            self.outbox.next_due(),
            self.report_queue.next_due(self.now),
            self.renewals.next_due(),
            self.renewals.send_at(self.leases_due(), self.settings.times.renew_gap),
        ];
        phases.chain(leases).chain(others.into_iter().flatten()).min()
    }

    fn is_paused(&self, run: Run) -> bool {
        self.jobs.get(&run.shard.job).is_some_and(|job| job.steered.paused_at.is_some())
    }

    /// Where an attempt is in its schedule at this moment.
    fn elapsed(&self, local_attempt: &LocalAttempt) -> Duration {
        let steered = self.jobs.get(&local_attempt.run.shard.job).map(|job| &job.steered);
        let paused_at = steered.and_then(|steered| steered.paused_at);
        local_attempt.elapsed(paused_at.map_or(self.now, |at| at.min(self.now)))
    }

    /// Cores on which an attempt sits, or a thread that did not end.
    fn taken(&self) -> BTreeSet<u32> {
        let local_attempt = self.attempts.values().map(|local_attempt| local_attempt.core.core());
        local_attempt.chain(self.stuck.values().map(CoreLease::core)).collect()
    }

    /// For membership's heartbeat.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let running =
            self.attempts.values().filter(|local_attempt| local_attempt.phase.is_begun()).count();
        Figures {
            accepting: !self.draining && !self.disk_full,
            disk_full: self.disk_full && !self.draining,
            cores: self.cores.total(),
            cores_free: self.cores.free(&self.taken()),
            shards: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            work_done: self.work_done,
            runnable: u32::try_from(running).unwrap_or(u32::MAX),
        }
    }

    /// What is here, of one job or of all: also what has ended and is not yet acknowledged.
    #[must_use]
    pub fn holdings(&self, job: Option<JobId>) -> WorkerInventory {
        let wanted = |run: &Run| job.is_none_or(|job| run.shard.job == job);
        let held = |run: Run, phase, elapsed, ran| {
            let epoch = self.fence.epoch(&run.shard.job).unwrap_or_default();
            HeldAttempt { shard: run.shard, attempt: run.attempt, epoch, phase, elapsed, ran }
        };
        let local_attempt =
            self.attempts.values().filter(|local_attempt| wanted(&local_attempt.run));
        let local_attempt = local_attempt.map(|local_attempt| {
            let ran = local_attempt.begun.map(|begun| self.now.since(begun));
            held(local_attempt.run, local_attempt.phase.shown(), self.elapsed(local_attempt), ran)
        });
        let ended = self.outbox.runs().filter(wanted);
        let ended = ended.map(|run| held(run, AttemptPhase::Ended, Duration::ZERO, None));
        WorkerInventory {
            boot: self.settings.boot,
            since: self.settings.since,
            cores: self.cores.total(),
            cores_free: self.cores.free(&self.taken()),
            draining: self.draining,
            attempts: local_attempt.chain(ended).collect(),
        }
    }

    #[must_use]
    pub fn boot(&self) -> BootId {
        self.settings.boot
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the fence said, and how many commands meant another life of this worker.
    #[must_use]
    pub fn fence_counts(&self) -> (fence::Counts, u64) {
        (self.fence.counts(), self.fence.other_life())
    }

    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Cores whose threads did not end. They come back only with the thread, or the process.
    #[must_use]
    pub fn cores_stuck(&self) -> usize {
        self.stuck.values().map(CoreLease::core).collect::<BTreeSet<_>>().len()
    }
}
