//! What happens to an attempt between the door and its report.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Granted, Ticket};

use super::live::{Cause, Gate, Live, Phase};
use super::{Effect, Letter, Matter, Progress, Run, RunEnd, RunHow, Worker};
use crate::message::{Answer, EndReport, Halt, RowBlock, Tell};
use crate::outbox::{Outbox, Put};
use ledger_state::{AttemptStatus, Counters, Payload};

/// A thread that answers this often does its work, however busy it is. How much it sends is the plan's to say and no
/// sign of health: a load generator's own use of the processor is no fault (R21).
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

impl Worker {
    /// The blobs of an attempt that was let in.
    pub(super) fn fetch(&self, run: Run, out: &mut Vec<Effect>) {
        let Some(dispatch) = self.live.get(&run).and_then(|live| live.dispatch.as_ref()) else {
            return;
        };
        let mut blobs = vec![dispatch.bundle];
        if let Payload::Blob(context) = dispatch.context {
            blobs.push(context);
        }
        out.push(Effect::Fetch { run, blobs });
    }

    pub(super) fn fetched(&mut self, run: Run, result: Result<(), String>, out: &mut Vec<Effect>) {
        let again = self.now.after(self.settings.times.fetch_again);
        let trouble = result.err().map(|why| self.shortened(why));
        let Some(live) = self.live.get_mut(&run) else { return self.unknown() };
        let Phase::Fetching { until, .. } = live.phase else { return self.unknown() };
        if let Some(why) = trouble {
            live.trouble = Some(why);
            live.phase = Phase::Fetching { until, again: Some(again) };
            self.counts.fetch_failures += 1;
        } else if let Some(dispatch) = live.dispatch.take() {
            live.phase = Phase::Preparing { until };
            out.push(Effect::Prepare { core: live.core.core(), dispatch });
            if let Some(until) = live.gate_until {
                out.push(Effect::MoveGate { run, until });
            }
        }
    }

    pub(super) fn prepared(&mut self, run: Run, graceful_stop: Duration) {
        let until = self.now.after(self.settings.times.start);
        match self.live.get_mut(&run) {
            Some(live) if matches!(live.phase, Phase::Preparing { .. }) => {
                live.graceful_stop = graceful_stop;
                live.phase = Phase::Ready { until };
            }
            _ => self.unknown(),
        }
    }

    pub(super) fn progressed(&mut self, run: Run, progress: Progress) {
        let now = self.now;
        let Some(live) = self.live.get_mut(&run) else { return self.unknown() };
        live.progress_at = now;
        let before = live.progress.replace(progress).map_or(0, |before| before.answers);
        if progress.answers > before {
            let since = live.answered.replace(self.now).map(|at| self.now.since(at));
            let well = since.unwrap_or_default().min(ANSWERS_WITHIN);
            self.work_done += u64::try_from(well.as_millis()).unwrap_or(u64::MAX);
        }
    }

    pub(super) fn rows_wanted(&mut self, run: Run, set: u32, at_least: u64, out: &mut Vec<Effect>) {
        let limit = self.settings.limits.row_blocks;
        let Some(live) = self.live.get_mut(&run) else { return self.unknown() };
        if live.rows_until.len() >= limit && !live.rows_until.contains_key(&set) {
            // More sets than any owner would be heard on. None left is an answer that the plan says what to do with.
            self.counts.refused_too_many += 1;
            let rows = RowBlock { set, first: 0, end: 0 };
            return out.push(Effect::GiveRows { run, rows });
        }
        live.rows_until.entry(set).or_default();
        let tell = Tell::RowsWanted { shard: run.shard, attempt: run.attempt, set, at_least };
        self.post.tell(Matter::Rows(run, set), Letter::Small(tell), self.now);
    }

    pub(super) fn abort(&mut self, run: Run, reason: String) {
        if !self.live.contains_key(&run) {
            return self.unknown();
        }
        let reason = self.shortened(reason);
        let tell = Tell::Abort { shard: run.shard, attempt: run.attempt, reason };
        self.post.tell(Matter::Abort(run), Letter::Small(tell), self.now);
    }

    fn unknown(&mut self) {
        self.counts.events_unknown += 1;
    }

    pub(super) fn granted(&mut self, run: Run, ticket: &Ticket, out: &mut Vec<Effect>) {
        let Some(live) = self.live.get_mut(&run) else { return };
        if let Granted::Until(until) = live.lease.renewal_granted(ticket, self.now) {
            live.gate_until = Some(until);
            // Before that there is no gate to move.
            if !matches!(live.phase, Phase::Fetching { .. }) {
                out.push(Effect::MoveGate { run, until });
            }
        }
    }

    /// More may be begun, as the ledger has it. Ends only rise: an old word changes nothing.
    pub(super) fn units_granted(&mut self, run: Run, end: Option<u64>, out: &mut Vec<Effect>) {
        let Some(live) = self.live.get_mut(&run) else { return };
        if end <= live.units_end || live.units_end.is_none() {
            return;
        }
        live.units_end = end;
        match (&mut live.dispatch, end) {
            (Some(dispatch), _) => dispatch.units_end = end,
            (None, Some(end)) => out.push(Effect::GrantUnits { run, end }),
            (None, None) => {}
        }
    }

    pub(super) fn renewal_refused(&mut self, run: Run, why: String, out: &mut Vec<Effect>) {
        let why = self.shortened(why);
        let ends = |live: &Live| !live.phase.is_forced();
        if self.live.get(&run).is_some_and(ends) {
            self.counts.renewals_refused += 1;
            self.halt(run, Cause::Refused(why), Halt::Now, out);
        }
    }

    /// The thread has seen its gate shut: whoever waited for that may start the next attempt.
    pub(super) fn gate_shut(&mut self, run: Run, out: &mut Vec<Effect>) {
        match self.live.get_mut(&run) {
            Some(live) if live.gate == Gate::Shutting => {
                live.gate = Gate::Shut;
                for to in std::mem::take(&mut live.waiters) {
                    out.push(Effect::Answer { to, answer: Answer::Stopped { report: None } });
                }
            }
            Some(_) => {}
            None => self.unknown(),
        }
    }

    /// Makes an attempt end. Harder than before is possible, softer is not; the reason of the hardest stands.
    pub(super) fn halt(&mut self, run: Run, cause: Cause, how: Halt, out: &mut Vec<Effect>) {
        let times = self.settings.times;
        let now = self.now;
        let Some(live) = self.live.get_mut(&run) else { return };
        match live.phase {
            // The engine has never heard of it.
            Phase::Fetching { .. } => {
                live.lease.stop(now);
                live.cause = Some(cause);
                self.finish(run, RunHow::Stopped, Remains::default(), out);
            }
            Phase::Forced { .. } | Phase::Killing { .. } => {}
            Phase::Running { .. } if how == Halt::Graceful => {
                live.cause = Some(cause);
                let most = live.graceful_stop.saturating_add(times.graceful_extra);
                live.phase = Phase::Graceful { until: now.after(most) };
                out.push(Effect::Halt { run, how });
            }
            Phase::Graceful { .. } if how == Halt::Graceful => {}
            // What has not begun has nothing to end gracefully.
            Phase::Preparing { .. }
            | Phase::Ready { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Graceful { .. } => {
                live.lease.stop(now);
                live.cause = Some(cause);
                live.gate = Gate::Shutting;
                live.phase = Phase::Forced { until: now.after(times.forced) };
                self.counts.forced += 1;
                out.push(Effect::ShutGate { run });
                out.push(Effect::Halt { run, how: Halt::Now });
            }
        }
    }

    /// It has not ended although nothing is sent for it any more: its thread hangs.
    pub(super) fn kill(&mut self, run: Run, out: &mut Vec<Effect>) {
        let until = self.now.after(self.settings.times.kill);
        let Some(live) = self.live.get_mut(&run) else { return };
        live.phase = Phase::Killing { until };
        self.counts.kills += 1;
        for to in std::mem::take(&mut live.waiters) {
            out.push(Effect::Answer { to, answer: Answer::Done });
        }
        out.push(Effect::Kill { run });
    }

    pub(super) fn ended(&mut self, run: Run, end: RunEnd, out: &mut Vec<Effect>) {
        // A thread that was given up has ended after all; its report is gone long ago.
        if self.stuck.remove(&run).is_some() {
            return;
        }
        let Some(live) = self.live.get_mut(&run) else { return self.unknown() };
        live.gate = Gate::Shut;
        let RunEnd { how, counters, provided, frames, totals, log } = end;
        self.finish(run, how, Remains { counters, provided, frames, totals, log }, out);
    }

    /// Not even killing has ended it. The job goes on without it; its core does not, until the thread is gone.
    pub(super) fn abandon(&mut self, run: Run, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(live) = self.live.get_mut(&run) else { return };
        if !matches!(live.phase, Phase::Killing { .. }) {
            return self.unknown();
        }
        // Its report lets the owner go on at once. So it waits until the thread's own clock forbids it to send.
        if let Some(until) = live.gate_until.filter(|_| live.might_send(now)) {
            live.phase = Phase::Killing { until };
            return;
        }
        let Progress { counters, frames, .. } = live.progress.unwrap_or_default();
        self.counts.abandoned += 1;
        let remains = Remains { counters, frames, ..Remains::default() };
        if let Some(core) = self.finish(run, RunHow::Stopped, remains, out) {
            self.stuck.insert(run, core);
        }
    }

    /// The end of every way: the core is given back by letting the lease go, and the report is
    /// kept.
    fn finish(
        &mut self,
        run: Run,
        how: RunHow,
        remains: Remains,
        out: &mut Vec<Effect>,
    ) -> Option<super::CoreLease> {
        let mut live = self.live.remove(&run)?;
        live.lease.stop(self.now);
        let sent_until = live.sent_until(self.now);
        let (status, error) = match live.cause.take() {
            Some(cause) => cause.verdict(how),
            None => match how {
                RunHow::Completed => (AttemptStatus::Completed, None),
                RunHow::Failed(error) => (AttemptStatus::Failed, Some(error)),
                RunHow::Unable(why) => (AttemptStatus::Interrupted, Some(why)),
                RunHow::Stopped => (AttemptStatus::Stopped, None),
            },
        };
        let report = EndReport {
            shard: run.shard,
            attempt: run.attempt,
            worker: self.settings.node,
            boot: self.settings.boot,
            status,
            error: error.map(|error| self.shortened(error)),
            counters: remains.counters,
            provided: remains.provided,
            frames: remains.frames,
            totals: remains.totals,
            log: remains.log,
            certain: true,
            sent_until,
        };
        let report = self.keep(report, out);
        self.post.settle_where(|matter| match matter {
            Matter::Ready(of) | Matter::Abort(of) | Matter::Rows(of, _) => of == run,
            Matter::Ended(_) | Matter::Draining(_) | Matter::MoreTime(_) => false,
        });
        let stopped = live.gate == Gate::Shut;
        for to in live.waiters {
            let report = Some(Box::new(report.clone()));
            let answer = if stopped { Answer::Stopped { report } } else { Answer::Done };
            out.push(Effect::Answer { to, answer });
        }
        Some(live.core)
    }

    /// Puts a report into the outbox, on its way to the disk and to its owner.
    pub(super) fn keep(&mut self, mut report: EndReport, out: &mut Vec<Effect>) -> EndReport {
        let limits = self.settings.limits;
        let run = Run::new(report.shard, report.attempt);
        let light = EndReport { totals: Vec::new(), ..report.clone() };
        let bytes = Outbox::size(&light);
        if bytes > limits.report_floor {
            let (is, most) = (bytes, limits.report_floor);
            report.provided = BTreeMap::new();
            report.status = report.status.max(AttemptStatus::Failed);
            report.error = Some(format!(
                "what it provides to later workflows has {is} bytes, and {most} are allowed"
            ));
        }
        if Outbox::size(&report) > limits.report_bytes {
            report.totals = Vec::new();
            self.counts.totals_dropped += 1;
        }
        let counts = &mut self.counts;
        let counter = match report.status {
            AttemptStatus::Completed => &mut counts.attempts_completed,
            AttemptStatus::Failed => &mut counts.attempts_failed,
            AttemptStatus::Stopped => &mut counts.attempts_stopped,
            AttemptStatus::Interrupted => &mut counts.attempts_interrupted,
        };
        *counter += 1;
        self.work_done += 1;
        let reserved = self.live.len() as u64 * limits.report_floor;
        if self.outbox.put(report, reserved) == Put::WithoutTotals {
            self.counts.totals_dropped += 1;
        }
        self.post.tell(Matter::Ended(run), Letter::Report, self.now);
        let kept = self.outbox.get(run).cloned().unwrap_or(light);
        out.push(Effect::Store { report: Box::new(kept.clone()) });
        kept
    }
}

/// What an attempt leaves.
#[derive(Default)]
struct Remains {
    counters: Counters,
    provided: BTreeMap<String, Vec<u8>>,
    frames: u64,
    totals: Vec<u8>,
    log: String,
}
