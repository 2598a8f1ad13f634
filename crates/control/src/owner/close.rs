//! The end of the job.
//!
//! ```text
//! load over ─▶ every attempt has its last word ─▶ result ──RecordResult──▶ ledger ──FinishJob──▶ finished
//! ```

use fence::Attempt;
use stats::WorkflowStatus;

use super::{Conclusion, Conclusive, Effect, Owner, Part, Phase, Purpose};
use ledger_state::{self, BlobRef, Command};

impl Owner {
    /// The load is over. Every attempt gets its last word, then the result is made.
    pub(super) fn close(&mut self) {
        let mut open = false;
        let mut to_seal = Vec::new();
        for (sid, shard) in &self.shards {
            for (place, one) in shard.tries.iter().enumerate() {
                if one.end.is_some() {
                    continue;
                }
                open = true;
                let attempt = Attempt(u32::try_from(place + 1).unwrap_or(u32::MAX));
                if !one.reporting && self.sealing.insert((*sid, attempt)) {
                    to_seal.push((shard.key, attempt));
                }
            }
        }
        for (shard, attempt) in to_seal {
            self.out.push(Effect::Seal { shard, attempt });
        }
        if open || !self.commits.is_empty() {
            return;
        }
        let holds: Vec<u32> = self.holds.keys().copied().collect();
        holds.into_iter().for_each(|hold| self.release(hold));
        self.phase = Phase::Concluding;
        self.changed();
        if self.result.is_some() {
            // A predecessor had made it.
            return self.finish();
        }
        let conclusion = self.conclusion();
        self.out.push(Effect::Conclude(Box::new(conclusion)));
    }

    fn conclusion(&self) -> Conclusion {
        let workflow = |(number, part): (usize, &Part)| {
            let (started, ended) = self.spans.get(&number).copied().unwrap_or_default();
            let tries = self.shards_of(number).map(|shard| {
                let lost = shard.tries.iter().rev().skip(1).filter(|one| !one.was_lost_falsely());
                lost.count()
            });
            Conclusive {
                name: part.name.clone(),
                status: self.machine.status(number).cloned().unwrap_or(WorkflowStatus::Stopped),
                started,
                ended,
                shards: self.divided.get(&number).copied().unwrap_or(0),
                retries: u32::try_from(tries.sum::<usize>()).unwrap_or(u32::MAX),
            }
        };
        Conclusion {
            outcome: self.outcome.unwrap_or(stats::Outcome::Failed),
            stop: match self.is_cancelled() {
                true => stats::StopReason::Cancelled,
                false => self.machine.stop_reason(),
            },
            detail: self.reason(),
            began: self.began,
            ended: self.age(),
            workflows: self.manifest.workflows.iter().enumerate().map(workflow).collect(),
            setup_error: self.machine.setup_error().map(str::to_owned),
            teardown_error: self.machine.teardown_error().map(str::to_owned),
            timeline: self.timeline.clone(),
            last_words: self.last_words(),
            cut: self.cut.clone(),
            unrun: self.unrun(),
        }
    }

    pub(super) fn concluded(&mut self, result: Option<BlobRef>) {
        if self.phase != Phase::Concluding {
            self.counts.repeats += 1;
            return;
        }
        let Some(result) = result else { return self.finish() };
        self.result = Some(result);
        self.phase = Phase::Recording;
        let (job, epoch) = (self.id, self.epoch);
        self.commit(Purpose::Result, Command::RecordResult { job, epoch, result });
    }

    pub(super) fn result_recorded(&mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        self.phase = Phase::Finishing;
        let outcome = match self.outcome.unwrap_or(stats::Outcome::Failed) {
            stats::Outcome::Completed => ledger_state::Outcome::Completed,
            stats::Outcome::Partial => ledger_state::Outcome::Partial,
            stats::Outcome::Failed => ledger_state::Outcome::Failed,
            stats::Outcome::Cancelled => ledger_state::Outcome::Cancelled,
            stats::Outcome::Timeout => ledger_state::Outcome::Timeout,
        };
        let (job, epoch, detail) = (self.id, self.epoch, self.short(&self.reason()));
        self.commit(Purpose::Finish, Command::FinishJob { job, epoch, outcome, detail });
    }

    /// Why the job ended as it did, in one line: why it was stopped, or what failed first.
    fn reason(&self) -> String {
        let failed = matches!(self.outcome, Some(stats::Outcome::Failed | stats::Outcome::Partial));
        if !self.detail.is_empty() || !failed {
            return self.detail.clone();
        }
        if let Some(error) = self.machine.setup_error() {
            return format!("setup failed: {error}");
        }
        let parts = self.manifest.workflows.iter().enumerate();
        let mut errors = parts.filter_map(|(number, part)| match self.machine.status(number) {
            Some(WorkflowStatus::Failed { error }) => {
                Some(format!("{} failed: {error}", part.name))
            }
            _ => None,
        });
        errors.next().unwrap_or_default()
    }

    pub(super) fn finished(&mut self, outcome: ledger_state::Outcome) {
        if self.phase == Phase::Finished {
            return;
        }
        self.phase = Phase::Finished;
        self.later.clear();
        self.out.push(Effect::Finished { outcome });
    }
}
