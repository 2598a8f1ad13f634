//! The one way in: an owner is built from what the ledger holds of its job, which is nothing for a
//! new one.
//!
//! ```text
//! ledger: division, attempts, ends, contexts, stop, steering ──▶ shards
//! blobs:  contexts, reports of what ended in the present stage ──▶ values, errors
//! workers: Install under the new epoch ──▶ what each of them holds
//!                          ╰──▶ the machine is told again what happened, and goes on from there
//! ```
//!
//! Nothing is executed again: an attempt that a worker holds is adopted as it is; one that was
//! committed but never dispatched goes to the same worker; one whose worker does not answer stays
//! where it is until the lease rules say that it is gone (R4).

use std::time::Duration;

use fence::{Attempt, Epoch, Handover, Holding, Moment, WorkflowNo};

use super::blobs::Fetch;
use super::capacity::Capacity;
use super::context::{self, Context};
use super::final_report::decode_report;
use super::grants::Grants;
use super::journal::Journal;
use super::lifecycle::Lifecycle;
use super::live_control::LiveControl;
use super::liveness::Liveness;
use super::manifest::{Manifest, OnWorkerLoss};
use super::outgoing::Outgoing;
use super::recovery::Recovery;
use super::reports::Reports;
use super::shard::{Shard, State, Step};
use super::shards::Shards;
use super::spec::Spec;
use super::stages::Stages;
use super::time::JobTime;
use super::workflows::Workflows;
use super::{Owner, Settings, Sid};
use crate::message::Task;
use crate::pool::Worker;
use crate::timeouts::{Budget, Timeouts};
use ledger_state::{self, AttemptRecord, AttemptStatus, LapseProof, Payload, ReportedBy};
use schedule::job::{self, BadShape};

/// Everything that an owner starts from.
#[derive(Clone, Debug)]
pub struct Adoption<'a> {
    pub job: &'a ledger_state::Job,
    /// The one that the claim was granted.
    pub epoch: Epoch,
    /// The ledger's time.
    pub now_ms: u64,
    pub manifest: Manifest,
    pub settings: Settings,
    /// For choices that nobody should foresee (EXEC-92).
    pub seed: u64,
    pub workers: Vec<Worker>,
}

impl Owner {
    /// Takes a job up under a granted epoch. The effects are to be carried out like those of a
    /// step.
    ///
    /// # Errors
    /// If the manifest is not that of a plan that was checked.
    pub fn adopt(
        adoption: Adoption<'_>,
        now: Moment,
    ) -> Result<(Self, Vec<super::Effect>), BadShape> {
        let Adoption { job, epoch, now_ms, manifest, settings, seed, workers } = adoption;
        let millis = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(job.created_ms));
        let budget = Budget::new(manifest.timeout, manifest.stuck_after());
        let extended = Duration::from_millis(job.extended_ms);
        let timeouts = Timeouts::take_up(budget, millis(now_ms), extended, now);
        let until = now.after(settings.sync_within);
        let mut owner = Self {
            workflows: Workflows::new(job::Job::new(manifest.shape()?)?),
            spec: Spec::new(job, epoch, manifest, settings),
            time: JobTime::new(timeouts, now),
            lifecycle: Lifecycle::of(job, now_ms, now, until),
            stages: Stages::default(),
            shards: Shards::default(),
            capacity: Capacity::new(workers, seed, now),
            liveness: Liveness::new(now.after(settings.scan_every)),
            context: Context::default(),
            control: LiveControl::of(job, now_ms, now),
            grants: Grants::default(),
            reports: Reports::default(),
            recovery: Recovery::of(job, now_ms),
            journal: Journal::default(),
            outgoing: Outgoing::default(),
        };
        owner.read_division(job);
        owner.read_contexts(job);
        owner.read_shards(job);
        owner.settle_passed();
        let sids = owner.shards.sids();
        sids.into_iter().for_each(|sid| owner.count_lost(sid));
        owner.read_history(job);
        owner.install();
        owner.drive();
        let effects = owner.outgoing.take();
        Ok((owner, effects))
    }

    fn read_division(&mut self, job: &ledger_state::Job) {
        for (WorkflowNo(number), division) in &job.provisioned {
            let workflow = *number as usize;
            self.workflows.divide(workflow, division.shards);
            if let Some(at) = self.recovery.begun(workflow) {
                self.workflows.begin(workflow, at);
                self.time.began_by(at);
            }
            for shard in 0..division.shards {
                let sid = (*number, shard);
                self.shards.insert(sid, Shard::new(self.spec.key(sid), Task::Load));
            }
        }
    }

    fn read_contexts(&mut self, job: &ledger_state::Job) {
        self.context.restore(job.contexts.len());
        for committed in &job.contexts {
            match &committed.payload {
                Payload::Inline(bytes) => self.read_values(bytes),
                Payload::Blob(blob) => {
                    self.recovery.fetch();
                    self.outgoing.fetch(Fetch::Context, *blob);
                }
            }
        }
    }

    fn read_values(&mut self, bytes: &[u8]) {
        match context::decode_values(bytes) {
            Ok(values) => self.context.read(values),
            Err(error) => self.note(error, None),
        }
    }

    fn read_shards(&mut self, job: &ledger_state::Job) {
        let stopping = job.cancel.is_some() || job.stop.is_some();
        for ((WorkflowNo(number), place), known) in &job.shards {
            let sid = (*number, *place);
            let task = self.spec.task(sid);
            let mut shard = Shard::new(self.spec.key(sid), task);
            let began = self.recovery.begun(*number as usize).is_some();
            let records = known.attempts.iter();
            shard.attempts = records.map(|record| self.as_recorded(sid, record, began)).collect();
            for (number, one) in (1..).map(Attempt).zip(&known.attempts) {
                let word = |end: &ledger_state::AttemptEnd| end.word;
                let last = one.addendum.as_ref().map(|addendum| addendum.word);
                if last.or(one.end.as_ref().map(word)).is_some_and(|word| word != ReportedBy::Whole)
                {
                    self.reports.is_unheard(shard.key, number);
                }
            }
            let Some((attempt, record)) = known.last() else { continue };
            if task != Task::Load
                && let Some(ran) = known.attempts.iter().find(|one| may_have_run(one))
            {
                let at = Duration::from_millis(ran.started_ms.saturating_sub(job.created_ms));
                self.time.began_by(at);
            }
            let failed = known.attempts.iter().filter(|one| one.revoked.is_some());
            shard.placing.failed_on = failed.map(|one| (one.worker, one.boot)).collect();
            match (&record.end, &record.revoked) {
                (Some(end), _) => match end.status {
                    AttemptStatus::Completed => shard.restore(State::Completed),
                    AttemptStatus::Failed => shard.restore(State::FailedTerminal),
                    AttemptStatus::Stopped | AttemptStatus::Interrupted
                        if stopping && !matches!(task, Task::Teardown { .. }) =>
                    {
                        shard.restore(State::Cancelled);
                    }
                    AttemptStatus::Stopped | AttemptStatus::Interrupted => {
                        shard.restore(State::Failed);
                        shard.proof = LapseProof::Stopped;
                        shard.step = Step::Lapsed;
                    }
                },
                (None, Some(_)) => {
                    shard.restore(State::Failed);
                    let (worker, boot) = (record.worker, record.boot);
                    let holding = Holding { shard: shard.key, attempt, worker, boot };
                    let lease =
                        shard.attempts.last().map_or(self.spec.settings().lease, |one| one.lease);
                    let handover = Handover::revoke_seen_committed(holding, lease, self.time.now());
                    shard.step = Step::Lapsing(handover);
                }
                (None, None) => {
                    shard.restore(State::Dispatched);
                    shard.step = Step::Sent;
                    shard.unsure = true;
                    shard.due = Some(self.time.after(self.spec.settings().ready_within));
                    self.recovery.ask((record.worker, record.boot));
                }
            }
            if let Some(end) = &record.end
                && let Some(blob) = end.result
                && self.needs_report(sid, end.status)
            {
                self.recovery.fetch();
                self.outgoing.fetch(Fetch::Report(sid), blob);
            }
            self.shards.insert(sid, shard);
        }
    }

    /// Shards that were given up under an owner before. The ledger does not say so, but it shows
    /// that the job has gone past them: then they are over, and must not be begun again.
    fn settle_passed(&mut self) {
        let passed: Vec<usize> = self.workflows.divided().filter(|w| self.is_passed(*w)).collect();
        // After a stop nothing new begins: where the job went on, a shard that ended early was
        // given up before.
        let went_on: Vec<usize> =
            passed.iter().copied().filter(|workflow| self.went_on_after(*workflow)).collect();
        let goes_on = self.spec.manifest().policy.on_worker_loss == OnWorkerLoss::Continue;
        for (sid, shard) in self.shards.iter_mut() {
            let workflow = sid.0 as usize;
            let given_up = matches!(shard.step, Step::Idle | Step::Lapsing(_) | Step::Lapsed)
                || shard.state() == State::Cancelled && went_on.contains(&workflow);
            if !given_up || !passed.contains(&workflow) {
                continue;
            }
            let begun = self.recovery.begun(workflow).is_some();
            shard.abandoned = goes_on && begun;
            shard.error = Some("it was given up under an owner before".to_owned());
            shard.restore(State::FailedTerminal);
        }
    }

    /// Batches run one after the other, so whatever began after this workflow's own shows that it
    /// is over.
    fn is_passed(&self, workflow: usize) -> bool {
        let place = |w: &usize| self.recovery.place(*w);
        let own = place(&workflow);
        let torn_down =
            |w: usize| place(&w) == own && self.shards.contains(&self.spec.teardown_of(w));
        let set_up_later = |w: usize| {
            let setup = self.shards.get(&self.spec.setup_of(w));
            place(&w).is_none() && setup.is_some_and(|setup| setup.state() != State::FailedTerminal)
        };
        self.went_on_after(workflow)
            || self.shards.contains(&self.spec.plan_teardown())
            || self.workflows.divided().any(torn_down)
            || (0..self.spec.manifest().workflows.len()).any(set_up_later)
    }

    /// Its layer is committed, or a later batch was divided.
    fn went_on_after(&self, workflow: usize) -> bool {
        let layer = self.spec.part(workflow).map_or(0, |part| part.layer);
        self.spec.stage_of(layer) < self.context.committed()
            || self.recovery.has_later(self.recovery.place(workflow))
    }

    /// The reason of a failure, and values that are not committed yet.
    fn needs_report(&self, sid: Sid, status: AttemptStatus) -> bool {
        let task = self.spec.task(sid);
        match (status, task) {
            (AttemptStatus::Failed, _) => true,
            (AttemptStatus::Completed, Task::Setup { of: None }) => self.context.committed() == 0,
            (AttemptStatus::Completed, Task::Setup { of: Some(_) }) => true,
            (AttemptStatus::Completed, Task::Load) => {
                let part = self.spec.part(sid.0 as usize);
                part.is_some_and(|part| {
                    !part.provide.is_empty()
                        && self.spec.stage_of(part.layer) >= self.context.committed()
                })
            }
            _ => false,
        }
    }

    pub(super) fn fetched(&mut self, tag: u64, content: &[u8]) {
        match self.outgoing.fetched(tag) {
            Ok(Fetch::Context) => self.read_values(content),
            Ok(Fetch::Report(sid)) => self.known(sid, content),
            Err(true) => return self.journal.count_mismatch(),
            Err(false) => return self.journal.count_repeat(),
        }
        self.recovery.fetched();
        self.outgoing.changed();
    }

    fn known(&mut self, sid: Sid, content: &[u8]) {
        let report = match decode_report(content) {
            Ok(report) => report,
            Err(error) => {
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.error = Some(error);
                }
                return;
            }
        };
        match report.status {
            AttemptStatus::Failed => {
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.error = report.error;
                }
            }
            _ => self.provide(sid, report.provided),
        }
    }
}

/// The ledger does not know of one that was started whether it came so far as to run.
fn may_have_run(record: &AttemptRecord) -> bool {
    let end = record.end.as_ref().map(|end| end.status);
    let came_to_an_end = matches!(end, Some(AttemptStatus::Completed | AttemptStatus::Failed));
    came_to_an_end || end.is_none() && record.revoked.is_none()
}

/// The attempt that a shard is at, for those who compare an owner with the ledger.
pub(super) fn last_attempt(job: &ledger_state::Job, sid: Sid) -> Attempt {
    let shard = job.shards.get(&(WorkflowNo(sid.0), sid.1));
    shard.map(ledger_state::Shard::last_number).unwrap_or_default()
}
