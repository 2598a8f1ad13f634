//! What must hold of every result, compared with what the target has seen.

use std::path::{Path, PathBuf};

use base::lock;
use membership::Role;
use schedule::Units;
use stats::{
    Delta, DropCause, Issued, Outcome, RunResult, StopReason, VerdictState, WorkflowStatus,
};

use super::plan::{Class, Job, Mark, Size};
use super::target::Target;
use super::world::{Submitted, World};
use crate::event;

/// Between two steps: what the target has noticed.
pub fn always(world: &World) {
    let (befallen, reached) = lock(&world.target).take_notes();
    befallen.into_iter().for_each(|class| world.injected(class, ""));
    reached.into_iter().for_each(|mark| world.reach(mark));
    for (invariant, what) in lock(&world.target).take_broken() {
        world.violate(invariant, what);
    }
}

/// What still has to happen before the run is over; `None`: nothing.
pub fn what_is_open(world: &World) -> Option<String> {
    let jobs = world.jobs.borrow();
    let is_over = |known: &Submitted| match world.plan.has(Class::Retention) {
        true => known.expired || known.refused,
        false => known.result.is_some() || known.refused,
    };
    let open = |job: &&Job| jobs.get(&job.name).is_none_or(|known| !is_over(known));
    if let Some(job) = world.plan.jobs.iter().find(open) {
        let id = jobs.get(&job.name).and_then(|known| known.id);
        return Some(format!("{} has no result (accepted as {id:?})", job.name));
    }
    // When all jobs are forgotten nothing refers to a blob any more.
    let left = if world.plan.has(Class::Retention) { blobs(world) } else { 0 };
    (left > 0).then(|| format!("{left} blobs are left, and no job"))
}

/// How many there are on the disks of managers that run.
fn blobs(world: &World) -> usize {
    let is_blob = |path: &PathBuf| path.iter().any(|part| part == "blobs");
    let files = |host: usize| world.hosts[host].disk.files();
    let managers = world.running(Role::Manager).into_iter();
    managers.map(|host| files(host).iter().filter(|path| is_blob(path)).count()).sum()
}

/// When everything is over.
pub fn in_the_end(world: &World) {
    let jobs = world.jobs.borrow();
    let target = lock(&world.target);
    for job in &world.plan.jobs {
        let Some(known) = jobs.get(&job.name) else { continue };
        let Some(result) = &known.result else { continue };
        check_outcome(world, job, known, result);
        check_kept(world, job, known, result);
        check_mild(world, job, result, target.was_aborted(&job.name));
        check_counts(world, job, result, &target);
        check_planned(world, job, known, result, &target);
        note(world, job, result);
    }
    if world.plan.size == Size::Lossy && !target.lapses.is_empty() {
        let what = format!("{:?}: a lease has run out, and its worker lived", target.lapses);
        world.violate("R4.lapse", what);
    }
    if world.plan.has(Class::Retention) {
        world.reach(Mark::Collected);
    }
    world.count("requests at the target", target.requests());
}

/// R17a: what was acknowledged is there, as long as it is not damaged on most disks.
fn check_kept(world: &World, job: &Job, known: &Submitted, result: &RunResult) {
    let name = &job.name;
    let reasons = &result.verdict.reasons;
    let forgotten = "lost by a receiver that had acknowledged them";
    if reasons.iter().any(|reason| reason.contains(forgotten)) && !has_damage(result) {
        world.violate("R17a.forgotten", format!("{name}: {reasons:?}"));
    }
    let detail = known.status.as_ref().map(|status| status.detail.as_str()).unwrap_or_default();
    if detail.contains("plan is lost") {
        world.violate("R17a.plan", format!("{name}: {detail}, and one manager had it"));
    }
}

fn check_outcome(world: &World, job: &Job, known: &Submitted, result: &RunResult) {
    let told = known.status.as_ref().map(|status| status.outcome().word()).unwrap_or_default();
    let name = &job.name;
    if known.cancelled && result.outcome != Outcome::Cancelled {
        // The fleet has said that it was cancelled, or that it had ended before.
        let cancelled_by = known.status.as_ref().map(|status| status.cancelled_by.clone());
        if cancelled_by.is_some_and(|by| !by.is_empty()) {
            let what = format!("{name}: cancelled, and {:?} ({told})", result.outcome);
            world.violate("R5.cancel", what);
        }
    }
    if result.outcome == Outcome::Cancelled
        && !world.plan.classes.iter().any(|class| class.name().contains("cancel"))
    {
        world.violate("R5.cancel", format!("{name}: nobody has cancelled it"));
    }
}

fn was_taken_over(result: &RunResult) -> bool {
    result.timeline.iter().any(|entry| entry.event.starts_with("taken over"))
}

/// Where machines and network are sound, nobody is taken for lost, nothing fails that does not fail
/// by itself, and every wish is heard.
fn check_mild(world: &World, job: &Job, result: &RunResult, aborted: bool) {
    if !world.plan.is_mild() {
        return;
    }
    let name = &job.name;
    if was_taken_over(result) {
        world.violate(
            "R6.takeover",
            format!("{name}: another owner took over, and the first lived"),
        );
    }
    let is_lost = |reason: &&String| reason.starts_with("worker ") && reason.contains("was lost");
    // A thread of load that crashes takes its attempt with it, though its worker lives.
    let crashed = world.plan.has(Class::EngineCrashes);
    if let Some(lost) = result.verdict.reasons.iter().find(is_lost).filter(|_| !crashed) {
        world.violate("R26.revoke", format!("{name}: {lost}, and all workers lived"));
    }
    let failed = result.workflows.iter().find_map(|workflow| match &workflow.status {
        WorkflowStatus::Failed { error } => Some(error),
        _ => None,
    });
    if let Some(error) = failed.filter(|_| !world.plan.attempts_fail()) {
        world.violate("R5.failed", format!("{name}: {error}"));
    }
    if aborted && result.stop == StopReason::Finished && result.outcome == Outcome::Completed {
        world.violate("R5.abort", format!("{name}: its script has ended it, and it went on"));
    }
}

/// completed <= seen <= issued, with issued as good as it says; and what is called exact is exact.
fn check_counts(world: &World, job: &Job, result: &RunResult, target: &Target) {
    let name = &job.name;
    let seen: u64 = target.of(name, None).iter().map(|shard| shard.seen).sum();
    let issued: u64 = target.of(name, None).iter().map(|shard| shard.issued).sum();
    let counted = Delta::of(&result.totals).requests().0;
    let completed: u64 = steps(result).map(|step| step.completed).sum();
    if completed > seen || counted > issued {
        let what =
            format!("{name}: {completed} completed of {counted}, the target has seen {seen}");
        world.violate("P5.bounds", what);
    }
    let holds = match result.issued {
        Issued::Exact(told) => told == issued,
        Issued::Bound(told) => told >= issued,
        Issued::Unknown => true,
    };
    if !holds {
        let what = format!("{name}: issued is {:?}, {issued} were issued", result.issued);
        world.violate("P5.issued", what);
    }
    world.reach(match result.issued {
        Issued::Exact(_) => Mark::IssuedExact,
        Issued::Bound(_) => Mark::IssuedBound,
        Issued::Unknown => Mark::IssuedUnknown,
    });
    check_exactness(world, job, result, counted, seen);
}

/// It says that too few sound checkpoints were found.
fn has_damage(result: &RunResult) -> bool {
    let damage = "checkpoints of the statistics were damaged";
    result.verdict.reasons.iter().any(|reason| reason.contains(damage))
}

/// It does not say that counts are missing.
fn is_exact(result: &RunResult) -> bool {
    let mut reasons = result.verdict.reasons.iter();
    !reasons.any(|reason| reason.starts_with("statistics are incomplete"))
}

/// P5: a result that does not say that counts are missing has all of them, however its attempts
/// have ended.
fn check_exactness(world: &World, job: &Job, result: &RunResult, counted: u64, seen: u64) {
    let (name, reasons) = (&job.name, &result.verdict.reasons);
    match (is_exact(result), counted == seen) {
        (true, true) => world.reach(Mark::Exact),
        (true, false) => {
            let what = format!("{name}: {counted} counted of {seen} seen, and it says {reasons:?}");
            world.violate("P5.exact", what);
        }
        (false, _) => world.reach(Mark::Short),
    }
    // A plan may ask for more than its rows or its time allow. Nothing else may be missing.
    let by_plan = ["found no data row left", "before `max_duration` was over"];
    let is_by_plan = |reason: &String| by_plan.iter().any(|cause| reason.contains(cause));
    if world.plan.classes.is_empty() && (counted != seen || !reasons.iter().all(is_by_plan)) {
        let what = format!("{name}: nothing went wrong, {counted} of {seen}: {reasons:?}");
        world.violate("P5.calm", what);
    }
}

fn steps(result: &RunResult) -> impl Iterator<Item = &stats::StepStats> {
    result.totals.blocks.iter().flatten().flat_map(|block| &block.steps)
}

/// Run and dropped together are what was planned, for every workflow whose plan can be counted,
/// however it ended.
fn check_planned(world: &World, job: &Job, known: &Submitted, result: &RunResult, target: &Target) {
    // Reports that are too large to keep take their counts with them, and so do checkpoints that
    // are damaged where others are gone. The result says so.
    let may_be_short = world.plan.has(Class::SmallReports) || has_damage(result);
    if may_be_short && !is_exact(result) {
        return;
    }
    let folder = Path::new(&job.name).join("plan.yaml");
    let options = plan::ReadOptions::new(&|_| None);
    let Ok(plan) = plan::read_file(&folder, &options) else { return };
    for (number, workflow) in plan.workflows.iter().enumerate() {
        let units = Units::of(&workflow.load.executor);
        let whole = match &units {
            Units::Users { .. } => continue,
            // Whoever changes a rate changes the plan.
            Units::Arrivals { .. } if known.scaled => continue,
            Units::Arrivals { .. } => {
                units.lasts().and_then(|time| units.of_shard(0, 1, time, &[]))
            }
            Units::Shared { .. } | Units::PerVu { .. } => {
                units.of_shard(0, 1, Default::default(), &[])
            }
        };
        let Some(whole) = whole else { continue };
        let stages = result.layout.workflows[number].stages.clone();
        let blocks =
            || stages.clone().filter_map(|stage| result.totals.blocks.get(stage)?.as_deref());
        let run: u64 = blocks().map(|block| block.iterations + block.iterations_interrupted).sum();
        let dropped =
            |cause: DropCause| blocks().map(|block| block.dropped[cause as usize]).sum::<u64>();
        let all = run + DropCause::ALL.into_iter().map(dropped).sum::<u64>();
        let shards = target.of(&job.name, Some(number));
        let began = shards.iter().any(|shard| shard.begun > 0 || shard.seen > 0);
        let begun: u64 = shards.iter().map(|shard| shard.begun).sum();
        let finished = result.stop == StopReason::Finished;
        // Whoever stops a job ends its schedule: what was due by then is planned, and all of that
        // was begun or missed.
        let least = if units.is_open() && !finished { begun.min(whole) } else { whole };
        let none = !began && all == 0;
        if !none && !(least..=whole).contains(&all) {
            let name = &workflow.name;
            let causes: Vec<u64> = DropCause::ALL.into_iter().map(dropped).collect();
            let what = format!(
                "{}: {name} ({units:?}): {run} run + {causes:?} dropped = {all}, planned {least}..{whole}; {:?}",
                job.name, result.outcome
            );
            for entry in &result.timeline {
                event!("{}: {entry:?}", job.name);
            }
            world.violate("R27.planned", what);
        }
        let lost = dropped(DropCause::WorkerLost);
        if lost > 0 {
            world.reach(Mark::WorkerLost);
            // Load that is missing is in the verdict (R27).
            if result.verdict.state == VerdictState::Valid {
                let what = format!("{}: {lost} iterations were lost, and it is valid", job.name);
                world.violate("R27.verdict", what);
            }
        }
        if lost > 0 && world.plan.classes.is_empty() {
            let what = format!("{}: {lost} dropped as lost, and no worker was", job.name);
            world.violate("R27.cause", what);
        }
    }
}

fn note(world: &World, job: &Job, result: &RunResult) {
    world.count(&format!("jobs {:?}", result.outcome).to_uppercase(), 1);
    match result.outcome {
        Outcome::Completed => world.reach(Mark::Completed),
        Outcome::Cancelled => world.reach(Mark::Cancelled),
        Outcome::Timeout => world.reach(Mark::Timeout),
        Outcome::Failed => world.reach(Mark::Failed),
        Outcome::Partial => {}
    }
    match result.stop {
        StopReason::Threshold(_) => world.reach(Mark::Threshold),
        StopReason::Aborted(_) => world.reach(Mark::Aborted),
        _ => {}
    }
    if result.verdict.state == VerdictState::Degraded {
        world.reach(Mark::Degraded);
    }
    if job.rows {
        world.reach(Mark::Rows);
    }
    if was_taken_over(result) {
        world.reach(Mark::Takeover);
    }
}
