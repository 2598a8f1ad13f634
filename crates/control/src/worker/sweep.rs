//! What follows from time alone: leases run out, deadlines pass, what is due is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Ended, JobId, Moment};

use super::local_attempt::{EndCause, PermitState, Phase};
use super::{Effect, ReportBody, ReportKey, Run, Worker};
use crate::message::{RenewRequest, Steer, StopMode, WorkerReport};

/// Jobs that are over are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// They are not looked for more often than this, however many are asked for.
const SWEEP_REST: Duration = Duration::from_secs(1);

impl Worker {
    /// What is over by now. Leases come first: nothing may be sent while the rest is looked at.
    pub(super) fn expire(&mut self, out: &mut Vec<Effect>) {
        let now = self.now;
        let mut lapsed = Vec::new();
        for local_attempt in self.attempts.values_mut() {
            local_attempt.lease.may_act(now);
            if local_attempt.lease.ended() == Some(Ended::Lapsed)
                && !local_attempt.phase.is_forced()
            {
                lapsed.push(local_attempt.run);
            }
        }
        for run in lapsed {
            self.counts.lapses += 1;
            self.halt(run, EndCause::Lapsed, StopMode::Now, out);
        }
        let gone = self.cores.release_where(|_, until| until <= now);
        self.counts.holds_expired += gone.len() as u64;
        for hold in gone {
            self.hold_over(hold);
        }
        let due: Vec<Run> = self
            .attempts
            .values()
            .filter(|local_attempt| {
                local_attempt
                    .phase_due(self.is_paused(local_attempt.run))
                    .is_some_and(|due| due <= now)
            })
            .map(|local_attempt| local_attempt.run)
            .collect();
        for run in due {
            self.phase_due(run, out);
        }
    }

    /// The moment of an attempt's phase has come.
    fn phase_due(&mut self, run: Run, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        match local_attempt.phase {
            Phase::Fetching { until, .. } if now < until => {
                local_attempt.phase = Phase::Fetching { until, again: None };
                self.fetch(run, out);
            }
            Phase::Fetching { .. } | Phase::Preparing { .. } => {
                let seconds = self.settings.times.prepare.as_secs_f64();
                let why = match local_attempt.trouble.take() {
                    Some(trouble) => format!("not prepared within {seconds:.1} s: {trouble}"),
                    None => format!("not prepared within {seconds:.1} s"),
                };
                self.counts.prepare_timeouts += 1;
                self.halt(run, EndCause::NotPrepared(why), StopMode::Now, out);
            }
            Phase::Ready { .. } => {
                let what = match (local_attempt.lease.until(), local_attempt.start) {
                    (None, _) => "no manager granted it a lease",
                    (Some(_), Some(_)) => "the attempt before it has not stopped",
                    (Some(_), None) => "nobody started it",
                };
                let seconds = self.settings.times.start.as_secs_f64();
                let why = format!("prepared, but {what} within {seconds:.1} s");
                self.counts.start_timeouts += 1;
                self.halt(run, EndCause::NotStarted(why), StopMode::Now, out);
            }
            Phase::Starting { at } => {
                local_attempt.phase = Phase::Running { until: at.after(local_attempt.run_at_most) };
            }
            Phase::Running { .. } => {
                let cause = EndCause::Overrun(local_attempt.run_at_most);
                self.counts.overruns += 1;
                self.halt(run, cause, StopMode::Graceful, out);
            }
            Phase::Graceful { .. } => {
                // The reason to end stays what it was.
                let cause = local_attempt
                    .cause
                    .clone()
                    .unwrap_or(EndCause::Overrun(local_attempt.run_at_most));
                self.halt(run, cause, StopMode::Now, out);
            }
            Phase::Forced { .. } => self.kill(run, out),
            Phase::Killing { .. } => self.abandon(run, out),
        }
    }

    /// What can go on now: starts, renewals, what is told, what is written.
    pub(super) fn move_on(&mut self, out: &mut Vec<Effect>) {
        self.begin_ready(out);
        self.ask_for_time();
        self.renew(out);
        self.send_tells(out);
        for report in self.outbox.writes_due(self.now) {
            out.push(Effect::Store { report: Box::new(report) });
        }
        if self.now.since(self.swept) >= SWEEP_EVERY {
            self.swept = self.now;
            self.sweep_jobs(self.settings.times.job_memory);
        }
        let nothing = self.attempts.is_empty() && self.cores.is_empty() && self.outbox.is_empty();
        if self.draining && !self.drained && nothing {
            self.drained = true;
            out.push(Effect::Drained);
        }
    }

    /// An attempt is ready when it is prepared, may send, and no other attempt of its shard can.
    /// Then it says so, and starts when the owner has said when.
    fn begin_ready(&mut self, out: &mut Vec<Effect>) {
        let ready: Vec<Run> = self
            .attempts
            .values()
            .filter(|local_attempt| {
                matches!(local_attempt.phase, Phase::Ready { .. })
                    && local_attempt.lease.until().is_some()
            })
            .map(|local_attempt| local_attempt.run)
            .filter(|run| !self.predecessor_sends(*run))
            .collect();
        for run in ready {
            let steers = self.steers_of(run);
            let Some(local_attempt) = self.attempts.get_mut(&run) else { continue };
            if let Some(at) = local_attempt.start {
                local_attempt.begun = Some(at.max(self.now));
                local_attempt.phase = Phase::Starting { at };
                self.report_queue.settle(ReportKey::Ready(run));
                let (elapsed, clock) =
                    (local_attempt.elapsed_at_start, local_attempt.clock_at_start);
                // Rates come first: which arrivals are past when it joins depends on them.
                let (pause, others): (Vec<_>, Vec<_>) =
                    steers.into_iter().partition(|steer| *steer == Steer::Pause);
                out.extend(others.into_iter().map(|steer| Effect::Steer { run, steer }));
                out.push(Effect::Start { run, at, elapsed, clock });
                out.extend(pause.into_iter().map(|steer| Effect::Steer { run, steer }));
                // The moment may be past, if a lease was late.
                if at <= self.now {
                    self.phase_due(run, out);
                }
            } else {
                let report = WorkerReport::Ready { shard: run.shard, attempt: run.attempt };
                self.report_queue.push(ReportKey::Ready(run), ReportBody::Small(report), self.now);
            }
        }
    }

    fn predecessor_sends(&self, run: Run) -> bool {
        let lower = self.runs_of(run.shard).into_iter().filter(|other| other.attempt < run.attempt);
        lower
            .filter_map(|other| self.attempts.get(&other))
            .any(|other| other.gate != PermitState::Shut)
    }

    /// When the first lease is to be renewed.
    pub(super) fn leases_due(&self) -> Option<Moment> {
        self.attempts.values().filter_map(|local_attempt| local_attempt.lease.renewal_due()).min()
    }

    fn shortest_lease(&self) -> Duration {
        let lengths = self.attempts.values().map(|local_attempt| local_attempt.terms.length());
        lengths.min().unwrap_or(fence::LeaseTerms::default().length())
    }

    /// Between rounds in which no manager has answered.
    pub(super) fn renewal_pause(&self) -> Duration {
        self.shortest_lease() / 16
    }

    fn renew(&mut self, out: &mut Vec<Effect>) {
        let now = self.now;
        let failed = self.renewals.look(now, self.renewal_pause());
        self.counts.renewals_failed += failed;
        let at = self.renewals.send_at(self.leases_due(), self.settings.times.renew_gap);
        if at.is_none_or(|at| at > now) {
            return;
        }
        let shortest = self.shortest_lease();
        let mut longest = shortest;
        let mut tickets = BTreeMap::new();
        for local_attempt in self.attempts.values_mut() {
            if let Some(ticket) = local_attempt.lease.renewal_sent(now) {
                tickets.insert(local_attempt.run, ticket);
                longest = longest.max(local_attempt.terms.length());
            }
        }
        let attempts = tickets.keys().map(|run| (run.shard, run.attempt)).collect();
        let jobs: BTreeSet<JobId> = tickets.keys().map(|run| run.shard.job).collect();
        let steered = jobs.into_iter().map(|job| (job, self.steers_heard(job))).collect();
        if let Some((number, to)) = self.renewals.sent(tickets, shortest, longest, now) {
            self.counts.renewals_sent += 1;
            let (worker, boot) = (self.settings.node, self.settings.boot);
            let renew = RenewRequest { worker, boot, attempts, steered };
            out.push(Effect::SendRenewal { number, to, renew });
        }
    }

    fn send_tells(&mut self, out: &mut Vec<Effect>) {
        let (now, times) = (self.now, self.settings.times);
        self.counts.tells_failed += self.report_queue.look(now, &times);
        if self.draining {
            let local_attempt: BTreeSet<JobId> =
                self.attempts.keys().map(|run| run.shard.job).collect();
            self.report_queue.settle_where(
                |key| matches!(key, ReportKey::Draining(job) if !local_attempt.contains(&job)),
            );
        }
        let limit = self.settings.limits.tells_in_flight;
        for (number, to, key, body, again) in
            self.report_queue.due(self.renewals.known(), limit, now, &times)
        {
            let report = match (body, key) {
                (ReportBody::Small(report), _) => Some(report),
                (ReportBody::Report, ReportKey::Ended(run)) => self
                    .outbox
                    .get(run)
                    .cloned()
                    .map(|report| WorkerReport::Ended(Box::new(report))),
                (ReportBody::Report, _) => None,
            };
            let Some(report) = report else { continue };
            self.counts.tells_sent += 1;
            self.counts.tells_again += u64::from(again);
            out.push(Effect::SendReport { number, to, report });
        }
    }

    /// Makes room for a job that is new, if there is none: those that have had nothing here for the
    /// longest go.
    pub(super) fn make_room(&mut self, job: JobId) {
        let full = self.jobs.len() >= self.settings.limits.jobs.keys;
        let rested = self.now.since(self.swept) >= SWEEP_REST;
        if full && rested && !self.jobs.contains_key(&job) {
            self.swept = self.now;
            self.sweep_jobs(self.settings.times.job_memory_full);
        }
    }

    /// Forgets jobs of which nothing has been here for so long. Their late commands are refused
    /// from then on.
    fn sweep_jobs(&mut self, memory: Duration) {
        let now = self.now;
        let busy: BTreeSet<JobId> = self
            .attempts
            .keys()
            .copied()
            .chain(self.outbox.runs())
            .map(|run| run.shard.job)
            .collect();
        let mut over = Vec::new();
        for (id, job) in &mut self.jobs {
            if busy.contains(id) || self.cores.of_job(*id) {
                job.idle_since = None;
            } else if now.since(*job.idle_since.get_or_insert(now)) >= memory {
                over.push(*id);
            }
        }
        for id in over {
            self.jobs.remove(&id);
            self.report_queue.forget_owner(id);
            self.fence.retire(id);
        }
    }
}
