//! A job's result as the simulation stores it, and what must hold of it: planned is run and dropped
//! together (R27), and `issued` is what it says that it is.

use control::owner::{Conclusion, Part};
use control::worker::Run;
use fence::{JobId, WorkflowNo};
use ledger_state::{AttemptRecord, AttemptStatus, Job, Outcome};
use schedule::Units;
use serde::{Deserialize, Serialize};
use stats::merge::Finished;
use stats::{Delta, DropCause, Issued, StopReason};

use super::engine::planned;
use super::plan::Mark;
use super::world::World;

#[derive(Serialize, Deserialize)]
pub struct JobResult {
    /// Requests that were counted.
    pub counted: u64,
    pub exact: bool,
    pub issued: Issued,
    /// It came to its end by itself; otherwise somebody has stopped it.
    finished: bool,
    /// In the order of the manifest.
    workflows: Vec<Sums>,
}

/// What became of a workflow's iterations.
#[derive(Serialize, Deserialize)]
struct Sums {
    run: u64,
    /// By [`DropCause`].
    dropped: Vec<u64>,
}

impl Sums {
    fn all(&self) -> u64 {
        self.run + self.dropped.iter().sum::<u64>()
    }

    fn dropped_as(&self, cause: DropCause) -> u64 {
        self.dropped.get(cause as usize).copied().unwrap_or(0)
    }
}

impl JobResult {
    /// `extra`: what a broken merge has counted twice.
    pub fn new(conclusion: &Conclusion, finished: &Finished, extra: u64) -> Self {
        // A workflow has one stage, with its own number.
        let sums = |workflow: usize| match finished.totals.blocks.get(workflow) {
            Some(Some(block)) => Sums {
                run: block.iterations + block.iterations_interrupted,
                dropped: block.dropped.to_vec(),
            },
            _ => Sums { run: 0, dropped: Vec::new() },
        };
        Self {
            counted: Delta::of(&finished.totals).requests().0 + extra,
            exact: finished.exact,
            issued: conclusion.last_words.issued(),
            finished: conclusion.stop == StopReason::Finished,
            workflows: (0..conclusion.workflows.len()).map(sums).collect(),
        }
    }
}

/// The target's count against what the result says of it. The files that count requests before they
/// are sent are what the target has seen, since a simulated request is written when it is counted.
pub fn check_issued(world: &mut World, id: JobId, result: &JobResult) {
    let truth = world.target.issued.get(&id).copied().unwrap_or(0);
    let counted = result.counted;
    let holds = match result.issued {
        Issued::Exact(issued) => issued == truth && counted <= issued,
        Issued::Bound(issued) => issued >= truth && counted <= issued,
        Issued::Unknown => true,
    };
    if !holds {
        let issued = result.issued;
        let what = format!("{id}: issued is {issued:?}, {counted} counted, {truth} were issued");
        world.violate("P5.issued", what);
    }
    world.reach(match result.issued {
        Issued::Exact(_) => Mark::IssuedExact,
        Issued::Bound(_) => Mark::IssuedBound,
        Issued::Unknown => Mark::IssuedUnknown,
    });
}

/// Run and dropped together are what was planned, for every workflow whose plan can be counted,
/// however the job ended.
pub fn check_planned(world: &mut World, id: JobId, job: &Job, result: &JobResult) {
    let Some(order) = world.orders.get(&id) else { return };
    let parts = order.manifest.workflows.clone();
    for ((number, part), sums) in (0..).map(WorkflowNo).zip(&parts).zip(&result.workflows) {
        let Some(whole) = planned(part) else { continue };
        let (least, most) = expected(world, id, number, part, whole, result.finished);
        let all = sums.all();
        let began = world.target.started.contains(&(id, number));
        // Where no attempt was started the load has not begun, or nobody could know that it had
        // not.
        let none = !began && all == 0;
        if !none && !(least..=most).contains(&all) {
            let (run, dropped, name) = (sums.run, &sums.dropped, &part.name);
            let wanted = if least == most { format!("{most}") } else { format!("{least}..{most}") };
            let ended = job.end.as_ref().map(|end| end.outcome);
            world.violate(
                "R27.planned",
                format!(
                    "{id}: {name} ({:?}): {run} run + {dropped:?} dropped = {all}, planned {wanted}; {ended:?}",
                    part.units
                ),
            );
        }
        check_causes(world, id, job, (number, part), sums, result.finished);
    }
}

/// How many units must be accounted for.
fn expected(
    world: &World,
    id: JobId,
    number: WorkflowNo,
    part: &Part,
    whole: u64,
    finished: bool,
) -> (u64, u64) {
    let again = world.target.repeats.get(&(id, number)).copied().unwrap_or(0);
    match part.units {
        // Whoever stops a job ends its schedule: what was due by then is planned, and all of that
        // was begun or missed.
        Units::Arrivals { .. } if !finished => (world.target.begun(id, number), whole + again),
        _ => (whole, whole + again),
    }
}

/// A cause is given where there was one, and only there.
fn check_causes(
    world: &mut World,
    id: JobId,
    job: &Job,
    (number, part): (WorkflowNo, &Part),
    sums: &Sums,
    finished: bool,
) {
    let lost = sums.dropped_as(DropCause::WorkerLost);
    if lost > 0 {
        world.reach(Mark::WorkerLost);
    }
    let own = |run: &&Run| (run.shard.job, run.shard.workflow) == (id, number);
    let was_cut = world.cut.iter().any(|run| own(&run));
    let mut shards = job.shards.iter().filter(|((workflow, _), _)| *workflow == number);
    let gave_up = |one: &AttemptRecord| {
        let end = one.end.as_ref().map(|end| end.status);
        one.revoked.is_some() || end != Some(AttemptStatus::Completed)
    };
    let was_lost = shards.any(|(_, shard)| shard.attempts.iter().any(gave_up));
    // A start that came late passes over what was due before it, and that has the same name.
    let joined = world.target.joined.contains(&(id, number));
    if lost > 0 && !was_cut && !was_lost && !joined {
        let what = format!("{id}: {} dropped {lost} as lost, and no worker was", part.name);
        world.violate("R27.cause", what);
    }
    let late = sums.dropped_as(DropCause::TimeOver);
    let cut_short = sums.dropped_as(DropCause::Stopped);
    let stopped =
        !finished || job.end.as_ref().is_some_and(|end| end.outcome != Outcome::Completed);
    if cut_short > 0 && !stopped {
        let what = format!("{id}: {} dropped {cut_short} as stopped, and was not", part.name);
        world.violate("R27.cause", what);
    }
    if late > 0 && !world.target.out_of_time.contains(&(id, number)) {
        let what = format!("{id}: {} dropped {late} as late, and had time left", part.name);
        world.violate("R27.cause", what);
    }
}
