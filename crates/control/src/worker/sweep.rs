//! What follows from time alone: leases run out, deadlines pass, what is due is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Ended, JobId, Moment};

use super::live::{Cause, Gate, Phase};
use super::{Effect, Letter, Matter, Run, Worker};
use crate::message::{Halt, Renew, Steer, Tell};

/// Jobs that are over are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// They are not looked for more often than this, however many are asked for.
const SWEEP_REST: Duration = Duration::from_secs(1);

impl Worker {
    /// What is over by now. Leases come first: nothing may be sent while the rest is looked at.
    pub(super) fn expire(&mut self, out: &mut Vec<Effect>) {
        let now = self.now;
        let mut lapsed = Vec::new();
        for live in self.live.values_mut() {
            live.lease.may_act(now);
            if live.lease.ended() == Some(Ended::Lapsed) && !live.phase.is_forced() {
                lapsed.push(live.run);
            }
        }
        for run in lapsed {
            self.counts.lapses += 1;
            self.halt(run, Cause::Lapsed, Halt::Now, out);
        }
        let gone = self.cores.release_where(|_, until| until <= now);
        self.counts.holds_expired += gone.len() as u64;
        for hold in gone {
            self.hold_over(hold);
        }
        let due: Vec<Run> = self
            .live
            .values()
            .filter(|live| live.phase_due(self.is_paused(live.run)).is_some_and(|due| due <= now))
            .map(|live| live.run)
            .collect();
        for run in due {
            self.phase_due(run, out);
        }
    }

    /// The moment of an attempt's phase has come.
    fn phase_due(&mut self, run: Run, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(live) = self.live.get_mut(&run) else { return };
        match live.phase {
            Phase::Fetching { until, .. } if now < until => {
                live.phase = Phase::Fetching { until, again: None };
                self.fetch(run, out);
            }
            Phase::Fetching { .. } | Phase::Preparing { .. } => {
                let seconds = self.settings.times.prepare.as_secs_f64();
                let why = match live.trouble.take() {
                    Some(trouble) => format!("not prepared within {seconds:.1} s: {trouble}"),
                    None => format!("not prepared within {seconds:.1} s"),
                };
                self.counts.prepare_timeouts += 1;
                self.halt(run, Cause::NotPrepared(why), Halt::Now, out);
            }
            Phase::Ready { .. } => {
                let what = match (live.lease.until(), live.start) {
                    (None, _) => "no manager granted it a lease",
                    (Some(_), Some(_)) => "the attempt before it has not stopped",
                    (Some(_), None) => "nobody started it",
                };
                let seconds = self.settings.times.start.as_secs_f64();
                let why = format!("prepared, but {what} within {seconds:.1} s");
                self.counts.start_timeouts += 1;
                self.halt(run, Cause::NotStarted(why), Halt::Now, out);
            }
            Phase::Starting { at } => {
                live.phase = Phase::Running { until: at.after(live.run_at_most) };
            }
            Phase::Running { .. } => {
                let cause = Cause::Overrun(live.run_at_most);
                self.counts.overruns += 1;
                self.halt(run, cause, Halt::Graceful, out);
            }
            Phase::Graceful { .. } => {
                // The reason to end stays what it was.
                let cause = live.cause.clone().unwrap_or(Cause::Overrun(live.run_at_most));
                self.halt(run, cause, Halt::Now, out);
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
        let nothing = self.live.is_empty() && self.cores.is_empty() && self.outbox.is_empty();
        if self.draining && !self.drained && nothing {
            self.drained = true;
            out.push(Effect::Drained);
        }
    }

    /// An attempt is ready when it is prepared, may send, and no other attempt of its shard can. Then it says so, and
    /// starts when the owner has said when.
    fn begin_ready(&mut self, out: &mut Vec<Effect>) {
        let ready: Vec<Run> = self
            .live
            .values()
            .filter(|live| {
                matches!(live.phase, Phase::Ready { .. }) && live.lease.until().is_some()
            })
            .map(|live| live.run)
            .filter(|run| !self.predecessor_sends(*run))
            .collect();
        for run in ready {
            let steers = self.steers_of(run);
            let Some(live) = self.live.get_mut(&run) else { continue };
            if let Some(at) = live.start {
                live.begun = Some(at.max(self.now));
                live.phase = Phase::Starting { at };
                self.post.settle(Matter::Ready(run));
                let (elapsed, clock) = (live.elapsed_at_start, live.clock_at_start);
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
                let tell = Tell::Ready { shard: run.shard, attempt: run.attempt };
                self.post.tell(Matter::Ready(run), Letter::Small(tell), self.now);
            }
        }
    }

    fn predecessor_sends(&self, run: Run) -> bool {
        let lower = self.runs_of(run.shard).into_iter().filter(|other| other.attempt < run.attempt);
        lower.filter_map(|other| self.live.get(&other)).any(|other| other.gate != Gate::Shut)
    }

    /// When the first lease is to be renewed.
    pub(super) fn leases_due(&self) -> Option<Moment> {
        self.live.values().filter_map(|live| live.lease.renewal_due()).min()
    }

    fn shortest_lease(&self) -> Duration {
        let lengths = self.live.values().map(|live| live.terms.length());
        lengths.min().unwrap_or(fence::Terms::default().length())
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
        for live in self.live.values_mut() {
            if let Some(ticket) = live.lease.renewal_sent(now) {
                tickets.insert(live.run, ticket);
                longest = longest.max(live.terms.length());
            }
        }
        let attempts = tickets.keys().map(|run| (run.shard, run.attempt)).collect();
        let jobs: BTreeSet<JobId> = tickets.keys().map(|run| run.shard.job).collect();
        let steered = jobs.into_iter().map(|job| (job, self.steers_heard(job))).collect();
        if let Some((number, to)) = self.renewals.sent(tickets, shortest, longest, now) {
            self.counts.renewals_sent += 1;
            let (worker, boot) = (self.settings.node, self.settings.boot);
            let renew = Renew { worker, boot, attempts, steered };
            out.push(Effect::SendRenewal { number, to, renew });
        }
    }

    fn send_tells(&mut self, out: &mut Vec<Effect>) {
        let (now, times) = (self.now, self.settings.times);
        self.counts.tells_failed += self.post.look(now, &times);
        if self.draining {
            let live: BTreeSet<JobId> = self.live.keys().map(|run| run.shard.job).collect();
            self.post.settle_where(
                |matter| matches!(matter, Matter::Draining(job) if !live.contains(&job)),
            );
        }
        let limit = self.settings.limits.tells_in_flight;
        for (number, to, matter, letter, again) in
            self.post.due(self.renewals.known(), limit, now, &times)
        {
            let tell = match (letter, matter) {
                (Letter::Small(tell), _) => Some(tell),
                (Letter::Report, Matter::Ended(run)) => {
                    self.outbox.get(run).cloned().map(|report| Tell::Ended(Box::new(report)))
                }
                (Letter::Report, _) => None,
            };
            let Some(tell) = tell else { continue };
            self.counts.tells_sent += 1;
            self.counts.tells_again += u64::from(again);
            out.push(Effect::SendTell { number, to, tell });
        }
    }

    /// Makes room for a job that is new, if there is none: those that have had nothing here for the longest go.
    pub(super) fn make_room(&mut self, job: JobId) {
        let full = self.jobs.len() >= self.settings.limits.jobs.keys;
        let rested = self.now.since(self.swept) >= SWEEP_REST;
        if full && rested && !self.jobs.contains_key(&job) {
            self.swept = self.now;
            self.sweep_jobs(self.settings.times.job_memory_full);
        }
    }

    /// Forgets jobs of which nothing has been here for so long. Their late commands are refused from then on.
    fn sweep_jobs(&mut self, memory: Duration) {
        let now = self.now;
        let busy: BTreeSet<JobId> =
            self.live.keys().copied().chain(self.outbox.runs()).map(|run| run.shard.job).collect();
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
            self.post.forget_owner(id);
            self.door.retire(id);
        }
    }
}
