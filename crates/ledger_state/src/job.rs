//! What the ledger knows of one job. Everything here is read by owners and shown to operators; only
//! [`super::State`] writes it.

use std::collections::BTreeMap;

use fence::{Attempt, BootId, Epoch, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use serde::{Deserialize, Serialize};

use super::command::{
    AttemptStatus, AttemptTerms, BlobRef, Counters, CreateJob, LapseProof, Outcome, Payload,
    ReportedBy, SessionId, StopCause,
};
use super::history::History;
use super::key::IdempotencyKey;
use super::reply::Refusal;
use crate::{Steer, Steering};

/// One job. The idempotency index is this and nothing else: the id is a function of tenant and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub tenant: String,
    pub key: IdempotencyKey,
    pub fingerprint: [u8; 32],
    pub name: String,
    pub plan: BlobRef,
    /// Ended as it was created; never owned.
    pub rehearsal: bool,
    pub created: Epoch,
    pub created_ms: u64,
    /// The last epoch granted for the job; it stays when the owner lets go.
    pub epoch: Option<Epoch>,
    /// Who holds it under that epoch.
    pub owner: Option<SessionId>,
    pub shards: BTreeMap<(WorkflowNo, u32), Shard>,
    /// By layer, from 0.
    pub contexts: Vec<Context>,
    pub cancel: Option<Cancel>,
    pub end: Option<End>,
    /// The sum over all attempts of all shards, replaced ones included (R17).
    pub totals: Counters,
    pub history: History,
    /// How workflows are divided. Those of one epoch are one batch and run together.
    pub provisioned: BTreeMap<WorkflowNo, Provisioned>,
    /// The next row of each data set that nobody was given.
    pub rows: BTreeMap<u32, u64>,
    pub stop: Option<Stopping>,
    /// What is in force, in the order it was said: one of each kind, and all changes of rates.
    pub steered: Vec<Steered>,
    /// How often it was steered.
    pub steers: u64,
    pub extended_ms: u64,
    pub result: Option<BlobRef>,
    /// For how long it was paused, up to the last resume; and since when it is. Paused time is no
    /// time of a schedule.
    pub paused_ms: u64,
    pub paused_since_ms: Option<u64>,
}

/// A workflow's division into shards, and when its load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioned {
    pub epoch: Epoch,
    pub shards: u32,
    pub begun_ms: Option<u64>,
    /// For how long the job had been paused by then, in all.
    pub paused_ms: u64,
}

/// Something that people have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    pub steer: Steer,
    /// Where the schedule of the workflow that it concerns stood then, by the ledger's time.
    pub schedule_ms: u64,
}

/// The owner's own decision to end early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    pub epoch: Epoch,
    pub cause: StopCause,
    pub reason: String,
}

/// The attempts of one shard; attempt n is at place n - 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub attempts: Vec<AttemptRecord>,
}

/// One try at a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub worker: NodeId,
    pub boot: BootId,
    /// The owner's epoch under which it was started.
    pub under: Epoch,
    pub started: Epoch,
    /// The ledger's time then.
    pub started_ms: u64,
    /// What proved that the attempt before had stopped.
    pub after: LapseProof,
    /// As it was started, and extended since.
    pub terms: AttemptTerms,
    pub revoked: Option<Revoked>,
    pub end: Option<AttemptEnd>,
    /// The start of the next attempt. What this one reports later is counted, but speaks for the
    /// shard no more.
    pub sealed: Option<Epoch>,
    pub addendum: Option<Addendum>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    pub epoch: Epoch,
    pub reason: String,
    /// The job's age when the attempt was last heard of.
    pub heard_ms: Option<u64>,
    /// Its worker was taken for gone.
    pub suspected: bool,
}

/// A worker's last word on an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub epoch: Epoch,
    pub status: AttemptStatus,
    pub counters: Counters,
    pub result: Option<BlobRef>,
    /// The job's age when it sent its last request, by its worker's clock.
    pub sent_until_ms: Option<u64>,
    pub word: ReportedBy,
}

/// A worker's own word on an attempt whose end its owner had written (R27): the end stays as it is,
/// and so does what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addendum {
    pub epoch: Epoch,
    /// For people: when it was taken.
    pub at: Hlc,
    pub status: AttemptStatus,
    /// All that the worker has counted, not only what is new.
    pub counters: Counters,
    /// The report. None: there was no more room for reports that come late.
    pub result: Option<BlobRef>,
    pub word: ReportedBy,
}

/// What a layer left to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub epoch: Epoch,
    pub payload: Payload,
}

/// The tombstone: only teardowns start after it, until its deadline (R28).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub epoch: Epoch,
    pub at: Hlc,
    pub reason: String,
    pub requestor: String,
    pub nonce: [u8; 16],
    /// Until then, by the ledger's time, what ran at the cancel keeps its leases.
    pub stop_until_ms: u64,
    /// Until then teardowns may start, and keep their leases.
    pub teardown_until_ms: u64,
    /// Under which number teardowns stand, if there are any.
    pub hooks: Option<WorkflowNo>,
    /// The entry that made it a hard one: both deadlines are the time of that entry.
    pub hard: Option<Epoch>,
}

impl Cancel {
    /// Whether this shard is a teardown, of the plan or of a workflow.
    #[must_use]
    pub fn is_teardown(&self, workflow: WorkflowNo, shard: u32) -> bool {
        self.hooks == Some(workflow) && !shard.is_multiple_of(2)
    }

    /// Until when an attempt at this shard may hold a lease.
    #[must_use]
    pub fn lease_until_ms(&self, shard: &ShardKey) -> u64 {
        match self.is_teardown(shard.workflow, shard.shard) {
            true => self.teardown_until_ms,
            false => self.stop_until_ms,
        }
    }
}

/// The outcome; never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub epoch: Epoch,
    pub at: Hlc,
    pub outcome: Outcome,
    /// What the owner had found; differs from the outcome if a cancel came first.
    pub found: Outcome,
    pub detail: String,
    pub ended_ms: u64,
}

/// Where a job is in its life (LEDG-28, as R5 has it: the outcome is a separate matter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Created,
    /// Somebody has claimed it.
    Running,
    Cancelling,
    Ended(Outcome),
}

impl Shard {
    /// The last attempt and its number.
    #[must_use]
    pub fn last(&self) -> Option<(Attempt, &AttemptRecord)> {
        self.attempts.last().map(|record| (self.last_number(), record))
    }

    /// 0 if there was none.
    #[must_use]
    pub fn last_number(&self) -> Attempt {
        Attempt(u32::try_from(self.attempts.len()).unwrap_or(u32::MAX))
    }

    #[must_use]
    pub fn attempt(&self, attempt: Attempt) -> Option<&AttemptRecord> {
        self.attempts.get((attempt.0 as usize).checked_sub(1)?)
    }

    /// The status of the shard: that of its last attempt. A replaced attempt has no say (R17).
    #[must_use]
    pub fn status(&self) -> Option<AttemptStatus> {
        self.attempts.last()?.end.as_ref().map(|end| end.status)
    }

    /// How many retries the next attempt makes.
    #[must_use]
    pub fn retries_used(&self) -> usize {
        self.attempts.iter().filter(|attempt| !attempt.was_lost_falsely()).count()
    }
}

impl AttemptRecord {
    /// May generate load, as far as the ledger knows.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.end.is_none() && self.revoked.is_none()
    }

    /// Its worker was taken for gone, and lived: it has said itself that it stopped the attempt.
    /// What a process that ended has left, or one whose lease ran out says, is `Interrupted`.
    #[must_use]
    pub fn was_lost_falsely(&self) -> bool {
        let suspected = self.revoked.as_ref().is_some_and(|revoked| revoked.suspected);
        suspected && self.end.as_ref().is_some_and(|end| end.status == AttemptStatus::Stopped)
    }

    /// Its end was written by its owner, and its worker has not been heard since.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.addendum.is_none()
            && self.end.as_ref().is_some_and(|end| end.word == ReportedBy::Owner)
    }

    /// What its worker did beyond what its owner had written.
    #[must_use]
    pub fn added(&self) -> Option<Counters> {
        let known = self.end.as_ref().map(|end| end.counters).unwrap_or_default();
        self.addendum.as_ref().map(|addendum| addendum.counters.beyond(&known))
    }
}

impl Job {
    pub(super) fn new(create: &CreateJob, created: Epoch, created_ms: u64) -> Self {
        Self {
            tenant: create.tenant.clone(),
            key: create.key.clone(),
            fingerprint: create.fingerprint,
            name: create.name.clone(),
            plan: create.plan,
            rehearsal: create.rehearsal,
            created,
            created_ms,
            epoch: None,
            owner: None,
            shards: BTreeMap::new(),
            contexts: Vec::new(),
            cancel: None,
            end: None,
            totals: Counters::default(),
            history: History::default(),
            provisioned: BTreeMap::new(),
            rows: BTreeMap::new(),
            stop: None,
            steered: Vec::new(),
            steers: 0,
            extended_ms: 0,
            result: None,
            paused_ms: 0,
            paused_since_ms: None,
        }
    }

    #[must_use]
    pub fn id(&self) -> JobId {
        self.key.job_id(&self.tenant)
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.end, &self.cancel, self.epoch) {
            (Some(end), _, _) => Phase::Ended(end.outcome),
            (None, Some(_), _) => Phase::Cancelling,
            (None, None, Some(_)) => Phase::Running,
            (None, None, None) => Phase::Created,
        }
    }

    #[must_use]
    pub fn shard(&self, key: &ShardKey) -> Option<&Shard> {
        self.shards.get(&(key.workflow, key.shard))
    }

    /// Every attempt, in the order of shards and numbers.
    pub fn attempts(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.shards.values().flat_map(|shard| &shard.attempts)
    }

    /// Whether `offered` is not out of date. The owner's commands are refused for it before
    /// anything else is looked at.
    pub(super) fn refuse_stale(&self, offered: Epoch) -> Result<(), Refusal> {
        match self.epoch {
            Some(held) if offered < held => Err(Refusal::StaleEpoch { held, offered }),
            _ => Ok(()),
        }
    }

    /// Whether `offered` is the epoch of the present owner.
    pub(super) fn require_held(&self, offered: Epoch) -> Result<(), Refusal> {
        self.refuse_stale(offered)?;
        if self.epoch != Some(offered) {
            return Err(Refusal::UnknownEpoch { held: self.epoch, offered });
        }
        if self.owner.is_none() {
            return Err(Refusal::Released { last: offered });
        }
        Ok(())
    }

    /// After a cancel only a teardown may start, and only until the deadline.
    pub(super) fn refuse_after_cancel(&self, key: &ShardKey, now_ms: u64) -> Result<(), Refusal> {
        match &self.cancel {
            Some(cancel)
                if !cancel.is_teardown(key.workflow, key.shard)
                    || now_ms >= cancel.teardown_until_ms =>
            {
                Err(Refusal::Cancelled { epoch: cancel.epoch })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn refuse_cancelled(&self) -> Result<(), Refusal> {
        match &self.cancel {
            Some(cancel) => Err(Refusal::Cancelled { epoch: cancel.epoch }),
            None => Ok(()),
        }
    }

    pub(super) fn refuse_ended(&self) -> Result<(), Refusal> {
        match &self.end {
            Some(End { outcome, epoch, .. }) => {
                Err(Refusal::Ended { outcome: *outcome, epoch: *epoch })
            }
            None => Ok(()),
        }
    }

    /// For how long it was paused by this time, in all.
    #[must_use]
    pub fn paused_by_ms(&self, now_ms: u64) -> u64 {
        let since = self.paused_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        self.paused_ms.saturating_add(since)
    }

    /// Where a workflow's schedule stands at this time of the ledger; zero before its load has
    /// begun.
    #[must_use]
    pub fn schedule_ms(&self, workflow: WorkflowNo, now_ms: u64) -> u64 {
        let Some(division) = self.provisioned.get(&workflow) else { return 0 };
        let Some(begun_ms) = division.begun_ms else { return 0 };
        let paused_ms = self.paused_by_ms(now_ms).saturating_sub(division.paused_ms);
        now_ms.saturating_sub(begun_ms).saturating_sub(paused_ms)
    }

    /// What workers are told.
    #[must_use]
    pub fn steering(&self) -> Steering {
        let steers = self.steered.iter().map(|one| one.steer.clone()).collect();
        Steering { number: self.steers, steers }
    }

    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused_since_ms.is_some()
    }

    /// How many addenda there are, and the bytes of their reports.
    #[must_use]
    pub fn addenda(&self) -> (usize, u64) {
        let addenda = self.attempts().filter_map(|record| record.addendum.as_ref());
        addenda.fold((0, 0), |(count, bytes), addendum| {
            (count + 1, bytes + addendum.result.map_or(0, |blob| blob.bytes))
        })
    }

    /// Bytes of texts and inline payloads.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        let mut bytes = self.tenant.len() + self.key.client.len() + self.name.len();
        if let Some(cancel) = &self.cancel {
            bytes += cancel.reason.len() + cancel.requestor.len();
        }
        bytes += self.end.as_ref().map_or(0, |end| end.detail.len());
        bytes += self.stop.as_ref().map_or(0, |stop| stop.reason.len());
        for record in self.attempts() {
            bytes += record.revoked.as_ref().map_or(0, |revoked| revoked.reason.len());
        }
        for context in &self.contexts {
            bytes += context.payload.inline_bytes();
        }
        bytes as u64
    }

    /// The blobs that the job needs.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> {
        // A rehearsal names a plan that nobody will ever read.
        let plan = (!self.rehearsal).then_some(self.plan);
        let results = self.attempts().filter_map(|record| record.end.as_ref()?.result);
        let late = self.attempts().filter_map(|record| record.addendum.as_ref()?.result);
        let contexts = self.contexts.iter().filter_map(|context| match context.payload {
            Payload::Blob(blob) => Some(blob),
            Payload::Inline(_) => None,
        });
        plan.into_iter().chain(results).chain(late).chain(contexts).chain(self.result)
    }
}

impl Payload {
    /// Bytes that lie in the ledger itself.
    #[must_use]
    pub fn inline_bytes(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Blob(_) => 0,
        }
    }
}
