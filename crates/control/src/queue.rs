//! Whose turn it is to reserve cores. A thousand queued jobs must not storm the workers, so only
//! the oldest few try.
//!
//! Every manager computes the same answer from the ledger's state. Jobs that have begun are not in
//! the queue: what they need next they may reserve at any time.
//!
//! The queue is fair by client: a client's first waiting job comes before another's second. Jobs of
//! the client that have begun count as if they stood before it. So one client's ten thousand jobs
//! delay another's one job by a place, not by ten thousand.
//!
//! A job that needs much could be overtaken for ever by younger ones that need little. So once the
//! first has waited for [`Turns::patience_ms`] it tries alone, until it has begun or has had its
//! time; a job that fits into no pool there is must not hold up the others until its own deadline.
//! Alone means: beside those of other clients who have a better place.

use std::collections::{BTreeMap, BTreeSet};

use fence::JobId;

use ledger_state::{Job, Phase, State};

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

/// A job in the queue.
struct Waiting<'a> {
    id: JobId,
    tenant: &'a str,
    /// Jobs of the same client that have begun or stand before it.
    before: usize,
    created: u64,
    created_ms: u64,
}

fn is_waiting(job: &Job) -> bool {
    matches!(job.phase(), Phase::Created | Phase::Running) && job.shards.is_empty()
}

/// The jobs that wait for their first cores, in their order.
fn queue(state: &State) -> Vec<Waiting<'_>> {
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    let mut jobs = Vec::new();
    for (id, job) in state.active_jobs() {
        if is_waiting(job) {
            let (created, created_ms) = (job.created.number, job.created_ms);
            jobs.push(Waiting { id, tenant: &job.tenant, before: 0, created, created_ms });
        } else {
            *before.entry(&job.tenant).or_default() += 1;
        }
    }
    jobs.sort_unstable_by_key(|job| job.created);
    for job in &mut jobs {
        let place = before.entry(job.tenant).or_default();
        job.before = *place;
        *place += 1;
    }
    jobs.sort_unstable_by_key(|job| (job.before, job.created));
    jobs
}

/// The jobs that wait for their first cores, in the order in which they get them.
#[must_use]
pub fn waiting(state: &State) -> Vec<JobId> {
    queue(state).into_iter().map(|job| job.id).collect()
}

/// How many jobs of a client wait for their first cores.
#[must_use]
pub fn waiting_of(state: &State, tenant: &str) -> usize {
    state.active_jobs().filter(|(_, job)| job.tenant == tenant && is_waiting(job)).count()
}

/// The waiting jobs whose turn it is.
#[must_use]
pub fn turn(state: &State, turns: Turns) -> BTreeSet<JobId> {
    let queue = queue(state);
    let impatient = |job: &&Waiting<'_>| {
        let age = state.now_ms().saturating_sub(job.created_ms);
        age > turns.patience_ms && age <= turns.patience_ms.saturating_add(turns.alone_ms)
    };
    let Some(first) = queue.iter().find(impatient) else {
        return queue.into_iter().take(turns.window).map(|job| job.id).collect();
    };
    let better = queue.iter().filter(|job| job.tenant != first.tenant && job.before < first.before);
    better.take(turns.window).chain([first]).map(|job| job.id).collect()
}
