//! Whose turn it is to reserve cores. A thousand queued jobs must not storm the workers, so only the oldest few try.
//!
//! Every manager computes the same answer from the ledger's state. Jobs that have begun are not in the queue: what they
//! need next they may reserve at any time.
//!
//! A job that needs much could be overtaken for ever by younger ones that need little. So once the oldest has waited
//! for [`Turns::patience_ms`] it tries alone, until it has begun or has had its time; a job that fits into no pool
//! there is must not hold up the others until its own deadline.

use std::collections::BTreeSet;

use fence::JobId;

use crate::ledger::{Phase, State};

/// How the queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// So many jobs try at a time.
    pub window: usize,
    pub patience_ms: u64,
    /// For so long after its patience a job tries alone.
    pub alone_ms: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self { window: 8, patience_ms: 30_000, alone_ms: 60_000 }
    }
}

/// The jobs that wait for their first cores, oldest first.
#[must_use]
pub fn waiting(state: &State) -> Vec<JobId> {
    let waits = |job: &crate::ledger::Job| {
        matches!(job.phase(), Phase::Created | Phase::Running) && job.shards.is_empty()
    };
    let mut jobs: Vec<(u64, JobId)> = state
        .active_jobs()
        .filter(|(_, job)| waits(job))
        .map(|(id, job)| (job.created.number, id))
        .collect();
    jobs.sort_unstable();
    jobs.into_iter().map(|(_, id)| id).collect()
}

/// The waiting jobs whose turn it is.
#[must_use]
pub fn turn(state: &State, turns: Turns) -> BTreeSet<JobId> {
    let waiting = waiting(state);
    let age =
        |id: &JobId| state.job(*id).map_or(0, |job| state.now_ms().saturating_sub(job.created_ms));
    let impatient = |id: &&JobId| {
        let age = age(id);
        age > turns.patience_ms && age <= turns.patience_ms.saturating_add(turns.alone_ms)
    };
    if let Some(first) = waiting.iter().find(impatient) {
        return BTreeSet::from([*first]);
    }
    waiting.into_iter().take(turns.window).collect()
}
