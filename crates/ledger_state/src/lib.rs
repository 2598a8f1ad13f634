//! The ledger's state machine: everything that may happen only once is decided here, and every
//! right to act is issued here.
//!
//! ```text
//! log entry (index, [Proposal; n]) ──▶ State::apply ──▶ [Reply; n]
//!                                        │ session   a retry? the first answer again
//!                                        │ validate  nonsense? refused by name
//!                                        │ command   jobs, owners, attempts, contexts, cancels, outcomes, time
//!                                        ╰ history   one event per change
//! ```
//!
//! Every member applies the same entries in the same order and comes to the same state; `digest`
//! compares them. The epoch of a grant is its place in the log, so it is unique, only rises, and
//! cannot be lost (R6).
//!
//! **A job's life** (LEDG-28 as R5 has it; the outcome is not a place in life, so TIMING_OUT and
//! FAILING are gone: the owner stops what runs and then commits one outcome):
//!
//! | From | Command | To |
//! |---|---|---|
//! | (none) | CreateJob | Created |
//! | (none) | CreateJob, a rehearsal | Ended(COMPLETED) at once |
//! | Created, Running | ClaimJob with the epoch last granted | Running, under a new epoch |
//! | Running | ReleaseJob | Running, without an owner |
//! | Running | StartAttempt, CommitContext, RevokeAttempt | Running |
//! | Running | Provision, BeginLoad, GrantRows, GrantUnits, SteerJob | Running; refused after a cancel |
//! | Running, Cancelling | StopJob, ExtendJob, RecordResult | unchanged |
//! | Created, Running | CancelJob | Cancelling; only teardowns start, until its deadline (R28) |
//! | Cancelling | CancelJob, another wish | Cancelling; its deadlines are over, the first reason stands |
//! | Cancelling | StartAttempt of a teardown, before the deadline | Cancelling |
//! | Cancelling | ClaimJob, ReleaseJob, RevokeAttempt, CommitContext | Cancelling |
//! | Running | FinishJob(outcome) | Ended(outcome) |
//! | Cancelling | FinishJob(any outcome) | Ended(CANCELLED), what the owner had found is kept |
//! | Ended | CancelJob, FinishJob | unchanged; the answer tells the outcome |
//! | Ended | ClaimJob, StartAttempt, CommitContext | refused; the answer tells the outcome |
//! | any with that attempt | EndAttempt, under the epoch held or none | unchanged; the counts are added once |
//! | any, and the owner has ended that attempt | EndAttempt, the worker's word | unchanged; an addendum, once |
//! | any | SetLimits | unchanged; what starts later goes by the new ones |
//! | any | a request that was answered | unchanged; the same answer |
//! | Ended, and its time is over | Advance, or any command | (none); the key is free |
//! | Ended, and its key's time is over | MakeRoom, or a command that finds no room | (none), the oldest first |
//!
//! **Invariant:** `apply` is total and pure: no clock, no randomness, no unordered map, no panic,
//! whatever is in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fence::canary::{self, Canary};
use fence::{Epoch, GroupId, JobId, NodeId};
use serde::{Deserialize, Serialize};

mod apply;
mod attempt;
mod command;
mod course;
mod history;
mod invariant;
mod job;
mod key;
mod limits;
mod place;
mod reply;
mod retention;
mod session;
mod snapshot;
mod steer;
mod step;

#[cfg(test)]
mod broken;

pub use command::{
    AttemptStatus, AttemptTerms, BlobRef, Command, Counters, CreateJob, Grace, LapseProof, Outcome,
    Payload, Proposal, ReportedBy, RequestId, SessionId, StopCause, UnitGrant,
};
pub use history::{Event, EventKind, History, Since};
pub use invariant::Violation;
pub use job::{
    Addendum, AttemptEnd, AttemptRecord, Cancel, Context, End, Job, Phase, Provisioned, Revoked,
    Shard, Steered, Stopping,
};
pub use key::{IdempotencyKey, KeyError, KeyProblem};
pub use limits::{BadLimits, Field, LEASE_MS, Limits, Problem, Resource, validate};
pub use place::preferred_owner;
pub use reply::{Busy, Refusal, Rejection, Reply, Submission};
pub use session::Session;
pub use snapshot::DecodeError;
pub use steer::{Steer, Steering};
pub use step::check_step;

use history::Recent;
use session::{Admission, Sessions};

/// Everything the group has decided and not yet retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    group: GroupId,
    limits: Limits,
    /// The last entry that was applied.
    applied: u64,
    /// The ledger's own time; only entries of the log move it.
    now_ms: u64,
    sessions: Sessions,
    /// Shared with the snapshot that is being written: a copy of the state copies pointers, not
    /// jobs.
    jobs: BTreeMap<JobId, Arc<Job>>,
    recent: Recent,
    /// What follows from the rest is not stored, and made again by `decode`.
    #[serde(skip)]
    derived: Derived,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Derived {
    /// Jobs that have not ended. Those that have may be many more.
    active: BTreeSet<JobId>,
    /// Jobs that have ended, by when their key may be forgotten.
    expiry: BTreeSet<(u64, JobId)>,
    attempts: u64,
    /// Texts and inline payloads.
    bytes: u64,
    /// Reports that came late.
    addenda_bytes: u64,
    /// Only counted by [`Canary::ReuseFenceAfterRestart`]: a number that starts again with the
    /// process.
    volatile: u64,
}

impl State {
    /// Nothing decided yet. `limits` should have passed [`Limits::check`], and must be the same on
    /// every member.
    #[must_use]
    pub fn new(group: GroupId, limits: Limits) -> Self {
        Self {
            group,
            limits,
            applied: 0,
            now_ms: 0,
            sessions: Sessions::default(),
            jobs: BTreeMap::new(),
            recent: Recent::default(),
            derived: Derived::default(),
        }
    }

    /// Applies the entry at `index`: one answer per proposal, in order. Indexes rise; they may
    /// skip.
    pub fn apply(&mut self, index: u64, batch: &[Proposal]) -> Vec<Reply> {
        if index <= self.applied {
            let refusal = Refusal::AlreadyApplied { applied: self.applied };
            return vec![Reply::Refused(refusal); batch.len()];
        }
        self.applied = index;
        let positions = 0..;
        batch.iter().zip(positions).map(|(p, position)| self.apply_at(index, position, p)).collect()
    }

    /// Applies one command of an entry.
    fn apply_at(&mut self, index: u64, position: u64, proposal: &Proposal) -> Reply {
        let Some(epoch) = self.epoch_at(index, position) else {
            return Reply::Refused(Refusal::OutOfEpochs);
        };
        self.retire_some(epoch, proposal.at);
        match self.sessions.admit(proposal, epoch, self.now_ms, &self.limits) {
            Admission::Answer(reply) => reply,
            Admission::Execute => {
                let reply = self.execute(epoch, proposal);
                self.sessions.keep(proposal, &reply);
                reply
            }
        }
    }

    /// The epoch that the command at this place may grant.
    fn epoch_at(&mut self, index: u64, position: u64) -> Option<Epoch> {
        if canary::active(Canary::ReuseFenceAfterRestart) {
            self.derived.volatile += 1;
            return Some(Epoch { group: self.group, number: self.derived.volatile });
        }
        let position = u16::try_from(position).ok()?;
        (index < 1 << 48).then(|| Epoch::at(self.group, index, position))
    }

    #[must_use]
    pub fn group(&self) -> GroupId {
        self.group
    }

    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The index of the last entry applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The ledger's time in milliseconds since the group was made.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(Arc::as_ref)
    }

    /// In the order of their ids.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(id, job)| (*id, job.as_ref()))
    }

    /// Those that have not ended.
    pub fn active_jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.derived.active.iter().filter_map(|id| Some((*id, self.job(*id)?)))
    }

    #[must_use]
    pub fn session(&self, node: NodeId) -> Option<&Session> {
        self.sessions.get(node)
    }

    /// What has happened to a job, oldest first.
    #[must_use]
    pub fn history(&self, id: JobId) -> Option<&History> {
        self.job(id).map(|job| &job.history)
    }

    /// What has happened to any job after `seen`, about `limit` events at most.
    #[must_use]
    pub fn events_since(&self, seen: Option<Epoch>, limit: usize) -> Since {
        self.recent.since(seen, limit)
    }

    /// Every blob that some job needs; what is not in it may be deleted.
    #[must_use]
    pub fn blobs_in_use(&self) -> BTreeSet<BlobRef> {
        self.jobs.values().flat_map(|job| job.blobs()).collect()
    }

    fn record(&mut self, id: JobId, event: Event) {
        if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
            let Limits { history_first, history_last, .. } = self.limits;
            job.history.push(event.clone(), history_first, history_last);
        }
        self.recent.push(id, event, self.limits.recent_events);
    }
}
