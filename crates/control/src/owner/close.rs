//! The end of the job.
//!
//! ```text
//! load over ─▶ every attempt has its final report ─▶ result ──RecordResult, FinishJob──▶ ledger
//! ```

use fence::Attempt;
use stats::WorkflowStatus;

use super::commits::Purpose;
use super::{Conclusion, Conclusive, Effect, Owner, Part, Phase};
use ledger_state::{self, BlobRef, Command};

impl Owner {
    /// The load is over. Every attempt gets its final report, then the result is made.
    pub(super) fn close(&mut self) {
        let mut open = false;
        let mut to_seal = Vec::new();
        for (sid, shard) in self.shards.iter() {
            for (place, one) in shard.attempts.iter().enumerate() {
                if one.end.is_some() {
                    continue;
                }
                open = true;
                let attempt = Attempt(u32::try_from(place + 1).unwrap_or(u32::MAX));
                if !one.reporting && self.reports.seal(*sid, attempt) {
                    to_seal.push((shard.key, attempt, one.may_run));
                }
            }
        }
        for (shard, attempt, may_have_run) in to_seal {
            self.outgoing.push(Effect::Seal { shard, attempt, may_have_run });
        }
        if open || self.outgoing.commits().are_open() {
            return;
        }
        let numbers = self.capacity.reservations().numbers();
        numbers.into_iter().for_each(|number| self.release(number));
        self.lifecycle.enter(Phase::Concluding);
        self.outgoing.changed();
        if self.lifecycle.has_result() {
            // A predecessor had made it.
            return self.finish();
        }
        let conclusion = self.conclusion();
        self.outgoing.push(Effect::Conclude(Box::new(conclusion)));
    }

    /// What a result is made of; before the end, as far as it is known.
    pub fn conclusion(&self) -> Conclusion {
        let workflow = |(number, part): (usize, &Part)| {
            let (started, ended) = self.workflows.span(number).unwrap_or_default();
            let tries = self.shards.of(number).map(|shard| {
                let lost =
                    shard.attempts.iter().rev().skip(1).filter(|one| !one.was_lost_falsely());
                lost.count()
            });
            Conclusive {
                name: part.name.clone(),
                status: self.workflows.status(number).cloned().unwrap_or(WorkflowStatus::Stopped),
                started,
                ended,
                shards: self.workflows.shards(number).unwrap_or(0),
                retries: u32::try_from(tries.sum::<usize>()).unwrap_or(u32::MAX),
            }
        };
        Conclusion {
            outcome: self.lifecycle.outcome().unwrap_or(stats::Outcome::Failed),
            stop: match self.lifecycle.is_cancelled() {
                true => stats::StopReason::Cancelled,
                false => self.workflows.stop_reason(),
            },
            detail: self.reason(),
            began: self.time.began(),
            ended: self.time.age(),
            workflows: self.spec.manifest().workflows.iter().enumerate().map(workflow).collect(),
            setup_error: self.workflows.setup_error().map(str::to_owned),
            teardown_error: self.workflows.teardown_error().map(str::to_owned),
            timeline: self.journal.timeline().to_vec(),
            last_words: self.last_words(),
            cut: self.reports.all_cut(),
            unrun: self.unrun(),
        }
    }

    pub(super) fn concluded(&mut self, result: Option<BlobRef>) {
        if self.lifecycle.phase() != Phase::Concluding {
            self.journal.count_repeat();
            return;
        }
        let Some(result) = result else { return self.finish() };
        self.lifecycle.set_result(result);
        self.lifecycle.enter(Phase::Recording);
        let (job, epoch) = (self.spec.id(), self.spec.epoch());
        self.outgoing.commit(Purpose::Result, Command::RecordResult { job, epoch, result });
    }

    pub(super) fn result_recorded(&mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.lifecycle.enter(Phase::Finishing);
        let outcome = match self.lifecycle.outcome().unwrap_or(stats::Outcome::Failed) {
            stats::Outcome::Completed => ledger_state::Outcome::Completed,
            stats::Outcome::Partial => ledger_state::Outcome::Partial,
            stats::Outcome::Failed => ledger_state::Outcome::Failed,
            stats::Outcome::Cancelled => ledger_state::Outcome::Cancelled,
            stats::Outcome::Timeout => ledger_state::Outcome::Timeout,
        };
        let (job, epoch, detail) =
            (self.spec.id(), self.spec.epoch(), self.spec.short(&self.reason()));
        self.outgoing.commit(Purpose::Finish, Command::FinishJob { job, epoch, outcome, detail });
    }

    /// Why the job ended as it did, in one line: why it was stopped, or what failed first.
    fn reason(&self) -> String {
        let failed = matches!(
            self.lifecycle.outcome(),
            Some(stats::Outcome::Failed | stats::Outcome::Partial)
        );
        if !self.lifecycle.detail().is_empty() || !failed {
            return self.lifecycle.detail().to_owned();
        }
        if let Some(error) = self.workflows.setup_error() {
            return format!("setup failed: {error}");
        }
        let parts = self.spec.manifest().workflows.iter().enumerate();
        let mut errors = parts.filter_map(|(number, part)| match self.workflows.status(number) {
            Some(WorkflowStatus::Failed { error }) => {
                Some(format!("{} failed: {error}", part.name))
            }
            _ => None,
        });
        errors.next().unwrap_or_default()
    }

    pub(super) fn finished(&mut self, outcome: ledger_state::Outcome) {
        if self.lifecycle.phase() == Phase::Finished {
            return;
        }
        self.lifecycle.enter(Phase::Finished);
        self.outgoing.drop_retries();
        self.outgoing.push(Effect::Finished { outcome });
    }

    /// Another owner has the job. What happens to it is no longer this one's business.
    pub(super) fn depose(&mut self, why: impl Into<String>) {
        self.lifecycle.enter(Phase::Deposed);
        self.outgoing.drop_waiting();
        self.outgoing.push(Effect::Deposed { why: why.into() });
    }
}
