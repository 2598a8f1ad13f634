//! What must hold of a fleet: always, and in the end.

use std::collections::BTreeSet;

use control::worker::{Run, invariant};
use fence::JobId;
use fence::invariant::one_holder;
use ledger_state::{Job, LapseProof, Outcome, Phase};

use super::plan::Mark;
use super::result::{JobResult, check_issued, check_planned};
use super::world::World;

/// P1, between all rounds: no shard has two attempts that might send, whoever else is down, paused
/// or cut off.
pub fn always(world: &mut World) {
    let mut holders = Vec::new();
    for host in &world.workers {
        if let Some(machine) = &host.machine {
            holders.extend(invariant::holders(machine, host.clock.read(world.now)));
        }
    }
    if let Err(violation) = one_holder(&holders) {
        world.violate(violation.id, violation.what);
    }
}

/// What still has to happen before the run is over; `None`: nothing.
pub fn what_is_open(world: &World) -> Option<String> {
    if !world.all_acknowledged() {
        return Some("a submission is not acknowledged".to_owned());
    }
    for (id, job) in world.book.state.jobs() {
        if !matches!(job.phase(), Phase::Ended(_)) {
            let owners: Vec<String> = world
                .managers
                .iter()
                .filter_map(|host| host.desks.get(&id))
                .map(|desk| format!("{:?}", desk.owner))
                .collect();
            let busy = world.workers.iter().filter_map(|host| host.machine.as_ref());
            let busy =
                busy.filter(|machine| machine.figures().cores_free < machine.figures().cores);
            let busy: Vec<_> = busy.map(|machine| machine.holdings(None)).collect();
            return Some(format!(
                "{id} has not ended; at work: {busy:?}; at its owner: {owners:?}"
            ));
        }
    }
    for (number, host) in world.workers.iter().enumerate() {
        let Some(machine) = &host.machine else { return Some(format!("w{number} is down")) };
        let figures = machine.figures();
        if figures.shards > 0 || !machine.outbox().is_empty() || figures.cores_free != figures.cores
        {
            let runs: Vec<Run> = host.engines.keys().copied().collect();
            return Some(format!(
                "w{number} has {} attempts, {} reports, {} of {} cores free: {runs:?}",
                figures.shards,
                machine.outbox().len(),
                figures.cores_free,
                figures.cores
            ));
        }
    }
    None
}

/// When everything is over.
pub fn in_the_end(world: &mut World) {
    let submitted: BTreeSet<JobId> = world.orders.keys().copied().collect();
    let there: BTreeSet<JobId> = world.book.state.jobs().map(|(id, _)| id).collect();
    for lost in world.acknowledged.difference(&there).copied().collect::<Vec<_>>() {
        world.violate("P2.present", format!("{lost} was acknowledged and is not there"));
    }
    for strange in there.difference(&submitted).copied().collect::<Vec<_>>() {
        world.violate("P2.created", format!("{strange} was never submitted"));
    }
    for id in there {
        let Some(job) = world.book.state.job(id).cloned() else { continue };
        check_job(world, id, &job);
    }
}

fn check_job(world: &mut World, id: JobId, job: &Job) {
    let Some(end) = &job.end else { return };
    if (end.outcome == Outcome::Cancelled) != job.cancel.is_some() {
        world.violate("R5.cancel", format!("{id}: {} with cancel {:?}", end.outcome, job.cancel));
    }
    if let Some(open) = job.attempts().find(|one| one.end.is_none()) {
        world.violate("LIFE-32", format!("{id}: {open:?} has no end"));
    }
    note(world, job);
    let seen = world.target.requests.get(&id).copied().unwrap_or(0);
    let issued = world.target.issued.get(&id).copied().unwrap_or(0);
    let ledger = job.totals.completed;
    if job.totals.issued > issued || ledger > seen || seen > issued {
        world.violate(
            "P5.bounds",
            format!("{id}: {ledger} completed and {} issued by the ledger, the target has {seen} of {issued}",
                job.totals.issued),
        );
    }
    let Some(result) = job.result.and_then(|blob| world.blobs.get(&blob)) else {
        return world.violate("R17a.result", format!("{id} has no result"));
    };
    let Ok((_, result)) = postcard::from_bytes::<(fence::Epoch, JobResult)>(result) else {
        return world.violate("R17a.result", format!("{id}: its result cannot be read"));
    };
    check_issued(world, id, &result);
    check_planned(world, id, job, &result);
    let (counted, exact) = (result.counted, result.exact);
    if counted > seen {
        world.violate("P5.merged", format!("{id}: {counted} counted, the target has {seen}"));
    }
    let cut = world.cut.iter().any(|run| run.shard.job == id);
    let revoked = job.attempts().any(|one| one.revoked.is_some());
    if !cut && !revoked {
        let all = [counted, ledger, seen, job.totals.issued];
        if all.iter().any(|one| *one != issued) || !exact {
            let what = format!(
                "{id}: nothing was cut off, and merged, ledger, target and issued are {all:?} of {issued}, exact: {exact}"
            );
            world.violate("P5.exact", what);
        }
        world.reach(Mark::Exact);
    } else if counted < seen {
        world.reach(Mark::Short);
    }
}

fn note(world: &mut World, job: &Job) {
    match job.phase() {
        Phase::Ended(Outcome::Completed) => world.reach(Mark::Completed),
        Phase::Ended(Outcome::Cancelled) => world.reach(Mark::Cancelled),
        _ => {}
    }
    if job.contexts.len() > 1 {
        world.reach(Mark::SecondLayer);
    }
    for one in job.attempts() {
        if one.revoked.is_some() {
            world.reach(Mark::Revoked);
        }
        match one.after {
            LapseProof::First => {}
            LapseProof::Stopped => world.reach(Mark::AfterStop),
            LapseProof::HigherBoot(_) => world.reach(Mark::AfterBoot),
            LapseProof::LeaseLapsed => world.reach(Mark::AfterLapse),
        }
    }
}
