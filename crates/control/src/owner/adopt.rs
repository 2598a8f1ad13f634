//! The one way in: an owner is built from what the ledger holds of its job, which is nothing for a new one.
//!
//! ```text
//! ledger: division, attempts, ends, contexts, stop, steering ──▶ shards
//! blobs:  contexts, reports of what ended in the present stage ──▶ values, errors
//! workers: Install under the new epoch ──▶ what each of them holds
//!                          ╰──▶ the machine is told again what happened, and goes on from there
//! ```
//!
//! Nothing is executed again (X29): an attempt that a worker holds is adopted as it is; one that was committed but
//! never dispatched goes to the same worker; one whose worker does not answer stays where it is until the lease rules
//! say that it is gone (G-7).

use base::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fence::{Attempt, Epoch, Handover, Holding, Moment, WorkflowNo};

use super::cancel::Cancelling;
use super::context::{self, Values};
use super::manifest::{Manifest, OnWorkerLoss};
use super::rates::InForce;
use super::recover::Recovery;
use super::report::decode_report;
use super::shard::{Shard, State, Step};
use super::wave::aside_task;
use super::{Counts, Owner, Parcel, Phase, Settings, Sid};
use crate::message::{Halt, Task};
use crate::pool::{Pool, Worker};
use crate::timeouts::{Budget, Timeouts};
use ledger_state::{self, AttemptRecord, AttemptStatus, Lapse, Payload, Word};
use schedule::job::{self, BadShape};

/// By how much the ledger's time may be behind where a schedule stands: it moves on with the next entry only.
const LEDGER_TIME_BEHIND: Duration = Duration::from_secs(2);

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
    /// Takes a job up under a granted epoch. The effects are to be carried out like those of a step.
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
        let until = now.after(settings.sync_within);
        let mut owner = Self {
            id: job.id(),
            created_ms: job.created_ms,
            epoch,
            bundle: job.plan,
            machine: job::Job::new(manifest.shape()?)?,
            settings,
            dice: SplitMix64::new(seed),
            phase: Phase::Recovering { until },
            now,
            pool: Pool::new(workers),
            hinted: now,
            cores: (0, now),
            turn: None,
            started: false,
            cancelling: job.cancel.as_ref().map(|cancel| Cancelling::of(cancel, now_ms, now)),
            shards: BTreeMap::new(),
            divided: BTreeMap::new(),
            setup_due: false,
            teardown_due: false,
            waiting: Vec::new(),
            set_up: BTreeSet::new(),
            batch: None,
            wave: None,
            queued: None,
            began: None,
            reached: BTreeMap::new(),
            spans: BTreeMap::new(),
            committed: 0,
            committing: false,
            values: Values::new(),
            fresh: BTreeMap::new(),
            provided: BTreeMap::new(),
            own_setups: BTreeMap::new(),
            sealing: BTreeSet::new(),
            steered: in_force(job),
            steers: job.steers,
            // If there was a pause at all: who has heard of the last change knows it.
            pause_number: if job.paused_by_ms(now_ms) > 0 || job.is_paused() {
                job.steers
            } else {
                0
            },
            steer_heard: BTreeMap::new(),
            steer_queue: VecDeque::new(),
            steer_asked: Vec::new(),
            paused: job.is_paused().then_some(now),
            rows: BTreeMap::new(),
            granting: false,
            lost_units: BTreeMap::new(),
            rtts: BTreeMap::new(),
            scan_at: now.after(settings.scan_every),
            absent: BTreeSet::new(),
            doubts: super::probe::Doubts::default(),
            timeouts: Timeouts::take_up(budget, millis(now_ms), extended, now),
            outcome: None,
            detail: job.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default(),
            result: job.result,
            stop_proposed: job.stop.is_some(),
            stop_cause: None,
            halting: Halt::Graceful,
            tags: 0,
            commits: BTreeMap::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            errands: BTreeMap::new(),
            later: BTreeMap::new(),
            parcels: BTreeMap::new(),
            reports: BTreeMap::new(),
            holds: BTreeMap::new(),
            hold_numbers: 0,
            recovery: Recovery { stop: job.stop.clone(), ..Recovery::default() },
            history: Vec::new(),
            timeline: Vec::new(),
            cut: Vec::new(),
            unheard: Vec::new(),
            seen: None,
            counts: Counts::default(),
            changes: 0,
            out: Vec::new(),
            manifest,
        };
        owner.read_division(job, now_ms);
        owner.read_contexts(job);
        owner.read_shards(job);
        owner.settle_passed();
        let sids: Vec<Sid> = owner.shards.keys().copied().collect();
        sids.into_iter().for_each(|sid| owner.count_lost(sid));
        owner.read_history(job);
        owner.install();
        owner.drive();
        let effects = std::mem::take(&mut owner.out);
        Ok((owner, effects))
    }

    fn read_division(&mut self, job: &ledger_state::Job, now_ms: u64) {
        let millis = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(job.created_ms));
        for (WorkflowNo(number), division) in &job.provisioned {
            let workflow = *number as usize;
            let begun = division.begun_ms.map(millis);
            self.divided.insert(workflow, division.shards);
            self.recovery.batches.insert(workflow, (division.epoch.number, begun));
            let paused = job.paused_by_ms(now_ms).saturating_sub(division.paused_ms);
            self.recovery.paused.insert(workflow, Duration::from_millis(paused));
            let since = job.paused_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
            self.recovery.pause = Duration::from_millis(since);
            if let Some(at) = begun {
                self.spans.insert(workflow, (at, at));
                self.began = Some(self.began.map_or(at, |first| first.min(at)));
            }
            for shard in 0..division.shards {
                let sid = (*number, shard);
                self.shards.insert(sid, Shard::new(self.key(sid), Task::Load));
            }
        }
    }

    fn read_contexts(&mut self, job: &ledger_state::Job) {
        self.committed = u32::try_from(job.contexts.len()).unwrap_or(u32::MAX);
        for committed in &job.contexts {
            match &committed.payload {
                Payload::Inline(bytes) => self.read_values(bytes),
                Payload::Blob(blob) => {
                    self.recovery.fetching += 1;
                    self.fetch(Parcel::Committed, *blob);
                }
            }
        }
    }

    fn read_values(&mut self, bytes: &[u8]) {
        match context::decode_values(bytes) {
            Ok(values) => self.values.extend(values),
            Err(error) => self.note(error, None),
        }
    }

    fn read_shards(&mut self, job: &ledger_state::Job) {
        let stopping = job.cancel.is_some() || job.stop.is_some();
        for ((WorkflowNo(number), place), known) in &job.shards {
            let sid = (*number, *place);
            let task = if *number == self.asides() { aside_task(*place) } else { Task::Load };
            let mut shard = Shard::new(self.key(sid), task);
            let began =
                self.recovery.batches.get(&(*number as usize)).is_some_and(|b| b.1.is_some());
            let records = known.attempts.iter();
            shard.tries = records.map(|record| self.as_try(sid, record, began)).collect();
            for (number, one) in (1..).map(Attempt).zip(&known.attempts) {
                let word = |end: &ledger_state::AttemptEnd| end.word;
                let last = one.addendum.as_ref().map(|addendum| addendum.word);
                if last.or(one.end.as_ref().map(word)).is_some_and(|word| word != Word::Whole) {
                    self.unheard.push((shard.key, number));
                }
            }
            let Some((attempt, record)) = known.last() else { continue };
            if task != Task::Load
                && let Some(ran) = known.attempts.iter().find(|one| may_have_run(one))
            {
                let at = Duration::from_millis(ran.started_ms.saturating_sub(job.created_ms));
                self.began = Some(self.began.map_or(at, |first| first.min(at)));
            }
            let failed = known.attempts.iter().filter(|one| one.revoked.is_some());
            shard.failed_on = failed.map(|one| (one.worker, one.boot)).collect();
            match (&record.end, &record.revoked) {
                (Some(end), _) => match end.status {
                    AttemptStatus::Completed => over(&mut shard, State::Completed),
                    AttemptStatus::Failed => over(&mut shard, State::FailedTerminal),
                    AttemptStatus::Stopped | AttemptStatus::Interrupted
                        if stopping && !matches!(task, Task::Teardown { .. }) =>
                    {
                        over(&mut shard, State::Cancelled);
                    }
                    AttemptStatus::Stopped | AttemptStatus::Interrupted => {
                        shard.state = State::Failed;
                        shard.proof = Lapse::Stopped;
                        shard.step = Step::Lapsed;
                    }
                },
                (None, Some(_)) => {
                    shard.state = State::Failed;
                    let (worker, boot) = (record.worker, record.boot);
                    let holding = Holding { shard: shard.key, attempt, worker, boot };
                    let lease = shard.tries.last().map_or(self.settings.lease, |one| one.lease);
                    let handover = Handover::revoke_seen_committed(holding, lease, self.now);
                    shard.step = Step::Lapsing(handover);
                }
                (None, None) => {
                    shard.state = State::Dispatched;
                    shard.step = Step::Sent;
                    shard.unsure = true;
                    shard.due = Some(self.now.after(self.settings.ready_within));
                    self.recovery.asked.insert((record.worker, record.boot));
                }
            }
            if let Some(end) = &record.end
                && let Some(blob) = end.result
                && self.needs_report(sid, end.status)
            {
                self.recovery.fetching += 1;
                self.fetch(Parcel::Known(sid), blob);
            }
            self.shards.insert(sid, shard);
        }
    }

    /// Shards that were given up under an owner before. The ledger has no word for that, but it shows that the job has
    /// gone past them: then they are over, and must not be begun again.
    fn settle_passed(&mut self) {
        let passed: Vec<usize> =
            self.divided.keys().copied().filter(|w| self.is_passed(*w)).collect();
        // After a stop nothing new begins: where the job went on, a shard that ended early was given up before.
        let went_on: Vec<usize> =
            passed.iter().copied().filter(|workflow| self.went_on_after(*workflow)).collect();
        let goes_on = self.manifest.policy.on_worker_loss == OnWorkerLoss::Continue;
        for (sid, shard) in &mut self.shards {
            let workflow = sid.0 as usize;
            let given_up = matches!(shard.step, Step::Idle | Step::Lapsing(_) | Step::Lapsed)
                || shard.state == State::Cancelled && went_on.contains(&workflow);
            if !given_up || !passed.contains(&workflow) {
                continue;
            }
            let begun = self.recovery.batches.get(&workflow).is_some_and(|batch| batch.1.is_some());
            shard.abandoned = goes_on && begun;
            shard.error = Some("it was given up under an owner before".to_owned());
            over(shard, State::FailedTerminal);
        }
    }

    /// Batches run one after the other, so whatever began after this workflow's own shows that it is over.
    fn is_passed(&self, workflow: usize) -> bool {
        let asides = self.asides();
        let aside = |w: usize, place: u32| (asides, 2 + 2 * u32::try_from(w).unwrap_or(0) + place);
        let place = |w: &usize| self.recovery.batches.get(w).map(|(place, _)| *place);
        let own = place(&workflow);
        let torn_down = |w: &usize| place(w) == own && self.shards.contains_key(&aside(*w, 1));
        let set_up_later = |w: usize| {
            let setup = self.shards.get(&aside(w, 0));
            place(&w).is_none() && setup.is_some_and(|setup| setup.state != State::FailedTerminal)
        };
        self.went_on_after(workflow)
            || self.shards.contains_key(&(asides, 1))
            || self.divided.keys().any(torn_down)
            || (0..self.manifest.workflows.len()).any(set_up_later)
    }

    /// Its layer is committed, or a later batch was divided.
    fn went_on_after(&self, workflow: usize) -> bool {
        let place = |w: &usize| self.recovery.batches.get(w).map(|(place, _)| *place);
        let own = place(&workflow);
        let layer = self.manifest.workflows.get(workflow).map_or(0, |part| part.layer);
        self.stage_of(layer) < self.committed
            || self.recovery.batches.values().any(|(other, _)| Some(*other) > own)
    }

    /// The reason of a failure, and values that are not committed yet.
    fn needs_report(&self, sid: Sid, status: AttemptStatus) -> bool {
        let task = if sid.0 == self.asides() { aside_task(sid.1) } else { Task::Load };
        match (status, task) {
            (AttemptStatus::Failed, _) => true,
            (AttemptStatus::Completed, Task::Setup { of: None }) => self.committed == 0,
            (AttemptStatus::Completed, Task::Setup { of: Some(_) }) => true,
            (AttemptStatus::Completed, Task::Load) => {
                let part = self.manifest.workflows.get(sid.0 as usize);
                part.is_some_and(|part| {
                    !part.provide.is_empty() && self.stage_of(part.layer) >= self.committed
                })
            }
            _ => false,
        }
    }

    pub(super) fn fetched(&mut self, tag: u64, content: &[u8]) {
        match self.parcels.remove(&tag) {
            Some(Parcel::Committed) => self.read_values(content),
            Some(Parcel::Known(sid)) => self.known(sid, content),
            Some(other) => {
                self.parcels.insert(tag, other);
                self.counts.lies += 1;
                return;
            }
            None => {
                self.counts.repeats += 1;
                return;
            }
        }
        self.recovery.fetching = self.recovery.fetching.saturating_sub(1);
        self.changed();
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
        match (sid.0 == self.asides(), report.status) {
            (_, AttemptStatus::Failed) => {
                if let Some(shard) = self.shards.get_mut(&sid) {
                    shard.error = report.error;
                }
            }
            (true, _) => {
                self.provided.entry(sid.0 as usize).or_default().insert(sid.1, report.provided);
                self.aside_provided(sid);
            }
            (false, _) => {
                self.provided.entry(sid.0 as usize).or_default().insert(sid.1, report.provided);
            }
        }
    }
}

/// The ledger does not know of one that was started whether it came so far as to run.
fn may_have_run(record: &AttemptRecord) -> bool {
    let end = record.end.as_ref().map(|end| end.status);
    let came_to_an_end = matches!(end, Some(AttemptStatus::Completed | AttemptStatus::Failed));
    came_to_an_end || end.is_none() && record.revoked.is_none()
}

/// What the owners before have committed.
fn in_force(job: &ledger_state::Job) -> Vec<InForce> {
    let one = |one: &ledger_state::Steered| InForce {
        steer: one.steer.clone(),
        number: job.steers,
        committed: Duration::from_millis(one.schedule_ms) + LEDGER_TIME_BEHIND,
    };
    job.steered.iter().map(one).collect()
}

fn over(shard: &mut Shard, state: State) {
    shard.state = state;
    shard.step = Step::Over;
}

/// The attempt that a shard is at, for those who compare an owner with the ledger.
pub(super) fn last_attempt(job: &ledger_state::Job, sid: Sid) -> Attempt {
    let shard = job.shards.get(&(WorkflowNo(sid.0), sid.1));
    shard.map(ledger_state::Shard::last_number).unwrap_or_default()
}
