//! What can be seen of an owner from outside.

use fence::{Attempt, Epoch, JobId, ShardKey};
use stats::WorkflowStatus;

use super::context::Values;
use super::shards::sid_of;
use super::{Counts, Note, Owner, Queued, ShardState, Transition};
use crate::message::EndReport;

impl Owner {
    #[must_use]
    pub fn job(&self) -> JobId {
        self.spec.id()
    }

    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.spec.epoch()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lifecycle.is_over()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.journal.counts()
    }

    /// The whole history of transitions, oldest first (LIFE-7).
    #[must_use]
    pub fn history(&self) -> &[Transition] {
        self.journal.history()
    }

    #[must_use]
    pub fn timeline(&self) -> &[Note] {
        self.journal.timeline()
    }

    /// Why nothing runs, if so.
    #[must_use]
    pub fn queued(&self) -> Option<&Queued> {
        self.capacity.queued()
    }

    /// The state of a shard and its attempt; `None` if there is no such shard: an unknown shard is
    /// not a pending one.
    #[must_use]
    pub fn shard(&self, key: &ShardKey) -> Option<(ShardState, Attempt)> {
        let shard = self.shards.find(key)?;
        Some((shard.state(), shard.attempt()))
    }

    /// The worker of its last attempt.
    #[must_use]
    pub fn worker_of(&self, key: &ShardKey) -> Option<fence::NodeId> {
        let shard = self.shards.find(key)?;
        shard.attempts.last().map(|one| one.worker)
    }

    /// The worker that an attempt was given to: nobody else speaks for it (R26).
    #[must_use]
    pub fn worker_of_attempt(&self, key: &ShardKey, attempt: Attempt) -> Option<fence::NodeId> {
        let shard = self.shards.find(key)?;
        shard.get(attempt).map(|one| one.worker)
    }

    /// The owner writes its end: what its worker still says of it is an addendum, and its
    /// statistics count no more.
    #[must_use]
    pub fn has_given_up(&self, key: &ShardKey, attempt: Attempt) -> bool {
        let sid = sid_of(key);
        let one = self.shards.find(key).and_then(|shard| shard.get(attempt));
        let by_owner = one.is_some_and(|one| one.by_owner);
        by_owner || self.reports.is_sealed(sid, attempt)
    }

    /// Whether a worker's final report on an attempt counts: it is its worker's, and nothing has
    /// counted as its end.
    #[must_use]
    pub fn expects_last_word(&self, report: &EndReport) -> bool {
        let key = &report.shard;
        let one = self.shards.find(key).and_then(|shard| shard.get(report.attempt));
        one.is_some_and(|one| {
            let is_its_worker = one.life() == (report.worker, report.boot);
            let is_open = one.end.is_none() && !one.reporting;
            is_its_worker && is_open && !self.has_given_up(key, report.attempt)
        })
    }

    pub fn shards(&self) -> impl Iterator<Item = (ShardKey, ShardState, Attempt)> {
        self.shards.values().map(|shard| (shard.key, shard.state(), shard.attempt()))
    }

    /// A workflow's state, from those of its shards.
    #[must_use]
    pub fn workflow(&self, number: usize) -> stats::WorkflowState {
        let own = self.shards.of(number);
        if self.workflows.status(number).is_none()
            && own.clone().any(|s| s.state() == ShardState::Running)
        {
            return stats::WorkflowState::Running;
        }
        self.workflows.state(number)
    }

    /// The status with which a workflow ended; `None` while it waits or runs.
    #[must_use]
    pub fn status(&self, number: usize) -> Option<&WorkflowStatus> {
        self.workflows.status(number)
    }

    /// How much of a workflow's schedule is behind it, from 0 to 1.
    #[must_use]
    pub fn progress_of(&self, number: usize, at: fence::Moment) -> f64 {
        let Some(part) = self.spec.part(number) else { return 0.0 };
        let runs = self.stages.batch().is_some_and(|batch| batch.workflows.contains(&number));
        if !self.workflows.has_begun(number) {
            return 0.0;
        } else if !runs {
            return 1.0;
        }
        let behind = self.schedule_at(at).as_secs_f64();
        (behind / part.length.as_secs_f64().max(1e-3)).min(1.0)
    }

    /// The time of the job itself, since anything of it first began: what windows of statistics are
    /// numbered by.
    #[must_use]
    pub fn clock(&self, at: fence::Moment) -> std::time::Duration {
        self.time.clock(at)
    }

    /// What the job's workflows hand on, as far as it is committed.
    #[must_use]
    pub fn values(&self) -> &Values {
        self.context.values()
    }
}
