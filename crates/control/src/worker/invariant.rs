//! What must always hold of a worker, as plain functions: debug builds and the simulator call the
//! same ones.

use std::collections::{BTreeMap, BTreeSet};

use fence::Moment;
use fence::invariant::{Holder, Violation};

use super::{Run, Worker};

/// All that concerns one worker.
///
/// # Errors
/// Names the first that does not hold, with the facts.
pub fn check(worker: &Worker) -> Result<(), Violation> {
    cores_add_up(worker)?;
    bounded(worker)?;
    one_place(worker)
}

/// W1: held + taken <= total; a core is shared only within one workflow, and by no more attempts
/// than allowed.
///
/// # Errors
/// Says which numbers do not add up, or which core has whom.
pub fn cores_add_up(worker: &Worker) -> Result<(), Violation> {
    let broken = |what: String| Err(Violation { id: "W1", what });
    let taken = worker.taken();
    let (held, total) = (worker.cores.held(), worker.cores.total());
    if held as usize + taken.len() > total as usize {
        return broken(format!("{held} cores held and {} taken of {total}", taken.len()));
    }
    if taken.iter().any(|core| *core >= total) {
        return broken(format!("a core beyond {total} is taken: {taken:?}"));
    }
    let mut occupants: BTreeMap<u32, Vec<Run>> = BTreeMap::new();
    for local_attempt in worker.attempts.values() {
        occupants.entry(local_attempt.core.core()).or_default().push(local_attempt.run);
    }
    for (core, runs) in occupants {
        let workflows: BTreeSet<_> =
            runs.iter().map(|run| (run.shard.job, run.shard.workflow)).collect();
        if workflows.len() > 1 || runs.len() > worker.settings.share_max as usize {
            return broken(format!("core {core} has {runs:?}"));
        }
    }
    Ok(())
}

/// W2: nothing that waits grows beyond its limit.
///
/// # Errors
/// Says what is too large.
pub fn bounded(worker: &Worker) -> Result<(), Violation> {
    let limits = &worker.settings.limits;
    let (local_attempt, reports) = (worker.attempts.len(), worker.outbox.len());
    let attempts_max = worker.settings.cores as usize * worker.settings.share_max as usize;
    // Each attempt: ready, abort, and one for each data set; each report one; each job one.
    let letters_max = local_attempt * (2 + limits.row_blocks) + reports + worker.jobs.len();
    let waiters = worker
        .attempts
        .values()
        .map(|local_attempt| local_attempt.waiters.len())
        .max()
        .unwrap_or(0);
    let found = [
        ("attempts", local_attempt, attempts_max),
        ("letters", worker.report_queue.len(), letters_max),
        ("waiters of one attempt", waiters, limits.waiters),
    ];
    match found.into_iter().find(|(_, is, most)| is > most) {
        Some((what, is, most)) => {
            Err(Violation { id: "W2", what: format!("{is} {what}, at most {most}") })
        }
        None => Ok(()),
    }
}

/// W3: an attempt runs or has a report, never both.
///
/// # Errors
/// Names it.
pub fn one_place(worker: &Worker) -> Result<(), Violation> {
    match worker.attempts.keys().find(|run| worker.outbox.get(**run).is_some()) {
        Some(run) => Err(Violation { id: "W3", what: format!("{run} runs and has a report") }),
        None => Ok(()),
    }
}

/// Every attempt here that might send at this instant: it was started, its newest grant has not run
/// out, and its thread has not seen its permit withdrawn. Those of all workers together go to
/// [`fence::invariant::one_holder`] (P1).
#[must_use]
pub fn holders(worker: &Worker, now: Moment) -> Vec<Holder> {
    let might_send = worker.attempts.values().filter(|local_attempt| local_attempt.might_send(now));
    might_send
        .map(|local_attempt| Holder {
            shard: local_attempt.run.shard,
            attempt: local_attempt.run.attempt,
            worker: worker.settings.node,
            boot: worker.settings.boot,
        })
        .collect()
}
