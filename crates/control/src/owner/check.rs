//! What must hold of an owner and of what it asks for: plain functions, for tests and for the
//! simulator.
//!
//! | Id | Promise |
//! |---|---|
//! | P1 | what is dispatched or started is the one live attempt, in that life of its worker |
//! | EXEC-66 | nothing is started before its division and the beginning of its load are committed |
//! | EXEC-182 | nothing of a layer is dispatched before everything before it is committed |
//! | EXEC-133 | an owner that has ended holds no core |
//! | LIFE-32 | a workflow that was started has ended when the job has |

use fence::{Attempt, ShardKey};

use super::adopt::last_attempt;
use super::shard::Step;
use super::{Effect, Manifest, Owner, Phase};
use crate::message::{Task, WorkerRequest};
use ledger_state::{Command, Job, Violation};

fn demand(holds: bool, id: &'static str, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { id, job: None, detail: detail() }) }
}

/// Checks effects against the ledger as it is when they are carried out, while the owner's epoch is
/// the job's.
///
/// # Errors
/// With the first promise that is broken.
pub fn check_effects(effects: &[Effect], job: &Job, manifest: &Manifest) -> Result<(), Violation> {
    for effect in effects {
        match effect {
            Effect::Call { worker, request: WorkerRequest::Dispatch(dispatch), .. } => {
                let order = &dispatch.order;
                let (key, attempt) = (order.shard, order.step.attempt);
                check_live(job, &key, attempt)?;
                let record = job.shard(&key).and_then(|shard| shard.attempt(attempt));
                let there = record.is_some_and(|r| (r.worker, r.boot) == (*worker, order.receiver));
                demand(there, "P1", || {
                    format!("{key} was dispatched to {worker}, not as committed")
                })?;
                check_stage(job, manifest, dispatch.task, &key, dispatch.context_version)?;
            }
            Effect::Call { request: WorkerRequest::Start { attempts, .. }, .. } => {
                for (key, attempt) in attempts {
                    check_live(job, key, *attempt)?;
                    let load = (key.workflow.0 as usize) < manifest.workflows.len();
                    let division = job.provisioned.get(&key.workflow);
                    let begun = division.is_some_and(|division| division.begun_ms.is_some());
                    demand(!load || begun, "EXEC-66", || {
                        format!("{key} is started before its load")
                    })?;
                }
            }
            Effect::Commit { command: Command::FinishJob { .. }, .. } => {
                let open = job.attempts().find(|record| record.end.is_none());
                demand(open.is_none(), "LIFE-32", || format!("finished with {open:?} open"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_live(job: &Job, key: &ShardKey, attempt: Attempt) -> Result<(), Violation> {
    let last = job.shard(key).and_then(|shard| shard.last());
    let live = last.is_some_and(|(number, record)| number == attempt && record.is_live());
    demand(live, "P1", || format!("attempt {attempt} of {key} is not live: {last:?}"))
}

fn check_stage(
    job: &Job,
    manifest: &Manifest,
    task: Task,
    key: &ShardKey,
    version: u32,
) -> Result<(), Violation> {
    let workflow = match task {
        Task::Load => Some(key.workflow.0 as usize),
        Task::Setup { of } | Task::Teardown { of } => of.map(|number| number.0 as usize),
    };
    let layer = workflow.and_then(|number| manifest.workflows.get(number)).map_or(0, |p| p.layer);
    let needed = match (workflow, task) {
        (None, _) => 0,
        (Some(_), _) => layer + usize::from(manifest.setup),
    };
    let committed = job.contexts.len();
    demand(committed >= needed && version as usize <= committed, "EXEC-182", || {
        format!("{key} needs {needed} stages, {committed} are committed, it is told {version}")
    })
}

/// Checks an owner against itself and against the ledger.
///
/// # Errors
/// With the first promise that is broken.
pub fn check_owner(owner: &Owner, job: &Job) -> Result<(), Violation> {
    let mine = job.epoch == Some(owner.spec.epoch()) && owner.lifecycle.phase() != Phase::Deposed;
    for (sid, shard) in owner.shards.iter().filter(|_| mine) {
        let committed = last_attempt(job, *sid);
        // The answer to a proposed start may be on its way.
        let ahead = shard.step == Step::Proposed && committed == shard.attempt().next();
        demand(committed == shard.attempt() || ahead, "P1", || {
            format!(
                "{}: attempt {} here, {committed} in the ledger, {:?}",
                shard.key,
                shard.attempt(),
                shard.step
            )
        })?;
        demand(shard.state().is_terminal() == (shard.step == Step::Over), "LIFE-1", || {
            format!("{}: {} but {:?}", shard.key, shard.state(), shard.step)
        })?;
    }
    if owner.lifecycle.phase() == Phase::Finished {
        let held = owner.capacity.reservations().numbers();
        demand(held.is_empty(), "EXEC-133", || format!("holds {held:?}"))?;
        let open = owner.shards.values().find(|shard| !shard.state().is_terminal());
        demand(open.is_none(), "LIFE-32", || format!("{open:?} has not ended"))?;
        let workflows = owner.spec.manifest().workflows.iter().enumerate();
        for (number, part) in workflows.filter(|_| owner.lifecycle.outcome().is_some()) {
            demand(owner.workflows.status(number).is_some(), "LIFE-32", || {
                format!("{} has not ended", part.name)
            })?;
        }
    }
    Ok(())
}
