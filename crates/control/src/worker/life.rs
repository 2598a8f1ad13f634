//! What happens to an attempt between the fence and its report.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Granted, Ticket};

use super::local_attempt::{EndCause, LocalAttempt, PermitState, Phase};
use super::{Effect, EngineEnd, EngineEndKind, Progress, ReportBody, ReportKey, Run, Worker};
use crate::message::{EndReport, RowBlock, StopMode, WorkerReport, WorkerResponse};
use crate::outbox::{Outbox, Put};
use ledger_state::{AttemptStatus, Counters, Payload};

/// A thread that answers this often does its work, however busy it is. How much it sends is the
/// plan's to say and no sign of health: a load generator's own use of the processor is no fault
/// (R21).
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

impl Worker {
    /// The blobs of an attempt that was let in.
    pub(super) fn fetch(&self, run: Run, out: &mut Vec<Effect>) {
        let Some(dispatch) =
            self.attempts.get(&run).and_then(|local_attempt| local_attempt.dispatch.as_ref())
        else {
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
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return self.unknown() };
        let Phase::Fetching { until, .. } = local_attempt.phase else { return self.unknown() };
        if let Some(why) = trouble {
            local_attempt.trouble = Some(why);
            local_attempt.phase = Phase::Fetching { until, again: Some(again) };
            self.counts.fetch_failures += 1;
        } else if let Some(dispatch) = local_attempt.dispatch.take() {
            local_attempt.phase = Phase::Preparing { until };
            out.push(Effect::Prepare { core: local_attempt.core.core(), dispatch });
            if let Some(until) = local_attempt.gate_until {
                out.push(Effect::ExtendPermit { run, until });
            }
        }
    }

    pub(super) fn prepared(&mut self, run: Run, graceful_stop: Duration) {
        let until = self.now.after(self.settings.times.start);
        match self.attempts.get_mut(&run) {
            Some(local_attempt) if matches!(local_attempt.phase, Phase::Preparing { .. }) => {
                local_attempt.graceful_stop = graceful_stop;
                local_attempt.phase = Phase::Ready { until };
            }
            _ => self.unknown(),
        }
    }

    pub(super) fn progressed(&mut self, run: Run, progress: Progress) {
        let now = self.now;
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return self.unknown() };
        local_attempt.progress_at = now;
        let before = local_attempt.progress.replace(progress).map_or(0, |before| before.answers);
        if progress.answers > before {
            let since = local_attempt.answered.replace(self.now).map(|at| self.now.since(at));
            let well = since.unwrap_or_default().min(ANSWERS_WITHIN);
            self.work_done += u64::try_from(well.as_millis()).unwrap_or(u64::MAX);
        }
    }

    pub(super) fn rows_wanted(&mut self, run: Run, set: u32, at_least: u64, out: &mut Vec<Effect>) {
        let limit = self.settings.limits.row_blocks;
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return self.unknown() };
        if local_attempt.rows_until.len() >= limit && !local_attempt.rows_until.contains_key(&set) {
            // More sets than any owner would be heard on. None left is an answer that the plan says
            // what to do with.
            self.counts.refused_too_many += 1;
            let rows = RowBlock { set, first: 0, end: 0 };
            return out.push(Effect::GiveRows { run, rows });
        }
        local_attempt.rows_until.entry(set).or_default();
        let report =
            WorkerReport::RowsWanted { shard: run.shard, attempt: run.attempt, set, at_least };
        self.report_queue.push(ReportKey::Rows(run, set), ReportBody::Small(report), self.now);
    }

    pub(super) fn abort(&mut self, run: Run, reason: String) {
        if !self.attempts.contains_key(&run) {
            return self.unknown();
        }
        let reason = self.shortened(reason);
        let report = WorkerReport::Abort { shard: run.shard, attempt: run.attempt, reason };
        self.report_queue.push(ReportKey::Abort(run), ReportBody::Small(report), self.now);
    }

    fn unknown(&mut self) {
        self.counts.events_unknown += 1;
    }

    pub(super) fn granted(&mut self, run: Run, ticket: &Ticket, out: &mut Vec<Effect>) {
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        if let Granted::Until(until) = local_attempt.lease.renewal_granted(ticket, self.now) {
            local_attempt.gate_until = Some(until);
            // Before that there is no gate to move.
            if !matches!(local_attempt.phase, Phase::Fetching { .. }) {
                out.push(Effect::ExtendPermit { run, until });
            }
        }
    }

    /// More may be begun, as the ledger has it. Ends only rise: an old word changes nothing.
    pub(super) fn units_granted(&mut self, run: Run, end: Option<u64>, out: &mut Vec<Effect>) {
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        if end <= local_attempt.units_end || local_attempt.units_end.is_none() {
            return;
        }
        local_attempt.units_end = end;
        match (&mut local_attempt.dispatch, end) {
            (Some(dispatch), _) => dispatch.units_end = end,
            (None, Some(end)) => out.push(Effect::GrantUnits { run, end }),
            (None, None) => {}
        }
    }

    pub(super) fn renewal_refused(&mut self, run: Run, why: String, out: &mut Vec<Effect>) {
        let why = self.shortened(why);
        let ends = |local_attempt: &LocalAttempt| !local_attempt.phase.is_forced();
        if self.attempts.get(&run).is_some_and(ends) {
            self.counts.renewals_refused += 1;
            self.halt(run, EndCause::Refused(why), StopMode::Now, out);
        }
    }

    /// The thread has seen its permit withdrawn: whoever waited for that may start the next
    /// attempt.
    pub(super) fn gate_shut(&mut self, run: Run, out: &mut Vec<Effect>) {
        match self.attempts.get_mut(&run) {
            Some(local_attempt) if local_attempt.gate == PermitState::Shutting => {
                local_attempt.gate = PermitState::Shut;
                for to in std::mem::take(&mut local_attempt.waiters) {
                    out.push(Effect::Respond {
                        to,
                        answer: WorkerResponse::Stopped { report: None },
                    });
                }
            }
            Some(_) => {}
            None => self.unknown(),
        }
    }

    /// Makes an attempt end. Harder than before is possible, softer is not; the reason of the
    /// hardest stands.
    pub(super) fn halt(&mut self, run: Run, cause: EndCause, how: StopMode, out: &mut Vec<Effect>) {
        let times = self.settings.times;
        let now = self.now;
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        match local_attempt.phase {
            // The engine has never heard of it.
            Phase::Fetching { .. } => {
                local_attempt.lease.stop(now);
                local_attempt.cause = Some(cause);
                self.finish(run, EngineEndKind::Stopped, Remains::default(), out);
            }
            Phase::Forced { .. } | Phase::Killing { .. } => {}
            Phase::Running { .. } if how == StopMode::Graceful => {
                local_attempt.cause = Some(cause);
                let most = local_attempt.graceful_stop.saturating_add(times.graceful_extra);
                local_attempt.phase = Phase::Graceful { until: now.after(most) };
                out.push(Effect::Stop { run, how });
            }
            Phase::Graceful { .. } if how == StopMode::Graceful => {}
            // What has not begun has nothing to end gracefully.
            Phase::Preparing { .. }
            | Phase::Ready { .. }
            | Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Graceful { .. } => {
                local_attempt.lease.stop(now);
                local_attempt.cause = Some(cause);
                local_attempt.gate = PermitState::Shutting;
                local_attempt.phase = Phase::Forced { until: now.after(times.forced) };
                self.counts.forced += 1;
                out.push(Effect::WithdrawPermit { run });
                out.push(Effect::Stop { run, how: StopMode::Now });
            }
        }
    }

    /// It has not ended although nothing is sent for it any more: its thread hangs.
    pub(super) fn kill(&mut self, run: Run, out: &mut Vec<Effect>) {
        let until = self.now.after(self.settings.times.kill);
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        local_attempt.phase = Phase::Killing { until };
        self.counts.kills += 1;
        for to in std::mem::take(&mut local_attempt.waiters) {
            out.push(Effect::Respond { to, answer: WorkerResponse::Done });
        }
        out.push(Effect::Kill { run });
    }

    pub(super) fn ended(&mut self, run: Run, end: EngineEnd, out: &mut Vec<Effect>) {
        // A thread that was given up has ended after all; its report is gone long ago.
        if self.stuck.remove(&run).is_some() {
            return;
        }
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return self.unknown() };
        local_attempt.gate = PermitState::Shut;
        let EngineEnd { how, counters, provided, frames, totals, log } = end;
        self.finish(run, how, Remains { counters, provided, frames, totals, log }, out);
    }

    /// What was handed over before its thread was given up counts, whenever it is reported.
    pub(super) fn leaves(&mut self, run: Run, totals: Vec<u8>) {
        if let Some(local_attempt) = self.attempts.get_mut(&run) {
            local_attempt.totals = totals;
        }
    }

    /// Not even killing has ended it. The job goes on without it; its core does not, until the
    /// thread is gone.
    pub(super) fn abandon(&mut self, run: Run, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(local_attempt) = self.attempts.get_mut(&run) else { return };
        if !matches!(local_attempt.phase, Phase::Killing { .. }) {
            return self.unknown();
        }
        // Its report lets the owner go on at once. So it waits until the thread's own clock forbids
        // it to send.
        if let Some(until) = local_attempt.gate_until.filter(|_| local_attempt.might_send(now)) {
            local_attempt.phase = Phase::Killing { until };
            return;
        }
        let Progress { counters, frames, .. } = local_attempt.progress.unwrap_or_default();
        self.counts.abandoned += 1;
        let totals = std::mem::take(&mut local_attempt.totals);
        let remains = Remains { counters, frames, totals, ..Remains::default() };
        if let Some(core) = self.finish(run, EngineEndKind::Stopped, remains, out) {
            self.stuck.insert(run, core);
        }
    }

    /// The end of every way: the core is given back by letting the lease go, and the report is
    /// kept.
    fn finish(
        &mut self,
        run: Run,
        how: EngineEndKind,
        remains: Remains,
        out: &mut Vec<Effect>,
    ) -> Option<super::CoreLease> {
        let mut local_attempt = self.attempts.remove(&run)?;
        local_attempt.lease.stop(self.now);
        let sent_until = local_attempt.sent_until(self.now);
        let (status, error) = match local_attempt.cause.take() {
            Some(cause) => cause.verdict(how),
            None => match how {
                EngineEndKind::Completed => (AttemptStatus::Completed, None),
                EngineEndKind::Failed(error) => (AttemptStatus::Failed, Some(error)),
                EngineEndKind::Unable(why) => (AttemptStatus::Interrupted, Some(why)),
                EngineEndKind::Stopped => (AttemptStatus::Stopped, None),
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
        self.report_queue.settle_where(|key| match key {
            ReportKey::Ready(of) | ReportKey::Abort(of) | ReportKey::Rows(of, _) => of == run,
            ReportKey::Ended(_) | ReportKey::Draining(_) | ReportKey::MoreTime(_) => false,
        });
        let stopped = local_attempt.gate == PermitState::Shut;
        for to in local_attempt.waiters {
            let report = Some(Box::new(report.clone()));
            let answer =
                if stopped { WorkerResponse::Stopped { report } } else { WorkerResponse::Done };
            out.push(Effect::Respond { to, answer });
        }
        Some(local_attempt.core)
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
        let reserved = self.attempts.len() as u64 * limits.report_floor;
        if self.outbox.put(report, reserved) == Put::WithoutTotals {
            self.counts.totals_dropped += 1;
        }
        self.report_queue.push(ReportKey::Ended(run), ReportBody::Report, self.now);
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
