//! Who gets which cores.
//!
//! Two questions, answered apart:
//!
//! **How many?** ([`range`], [`partition`]) A priority is a range of cores, computed from the whole
//! pool and not from what happens to be free. The workflows of one layer are grouped into batches
//! whose least needs fit the pool together, and within a batch cores go to the higher priorities
//! first. Workflows that generate no load take one core and no part in this; no workflow gets more
//! cores than it has users. A fleet is shared by jobs, so there a workflow without a priority takes
//! no more than its load needs ([`need`]).
//!
//! **Where and when, on one machine?** ([`place`]) A plan means the same on a laptop and on a
//! server: which workflows of a layer run side by side must not depend on how many cores there are,
//! or the target would see another load. So the batches of a layer run together and *share* cores
//! where the pool is too small, except that an exclusive workflow runs alone:
//!
//! ```text
//! batches  [X: exclusive] [A 18, B 6] [C 20]      pool of 24
//! waves    1: X on 0..24      2: A on 0..18, B on 18..24, C on 0..20 (shared with A and B)
//! ```
//!
//! Waves run one after another. Within a wave cores are dealt out in turn, so that no core serves
//! more than one workflow more than another does. A fleet that can wait for free cores uses the
//! batches themselves.

use plan::{Plan, Priority, Workflow, WorkflowClass};

use crate::vus_max;

mod need;

#[cfg(test)]
mod tests;

pub use need::{Basis, Need, need, requests};

/// A workflow of one layer that wants cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub priority: Priority,
    /// Generates load (`plan::WorkflowClass::Test`).
    pub is_test: bool,
    pub vus_max: u32,
    pub size: Size,
}

/// How many cores a candidate wants, apart from its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Any,
    /// More would be idle.
    AtMost(u32),
    /// The plan says so.
    Exactly(u32),
}

/// The workflows of a plan, in its order, as they ask for cores.
pub fn candidates(plan: &Plan) -> Vec<Candidate> {
    let candidate = |workflow: &Workflow| Candidate {
        name: workflow.name.clone(),
        priority: workflow.priority,
        is_test: plan::classify(workflow) == WorkflowClass::Test,
        vus_max: vus_max(&workflow.load),
        size: workflow.cores.map_or(Size::Any, |cores| Size::Exactly(cores.get())),
    };
    plan.workflows.iter().map(candidate).collect()
}

/// How many cores a workflow of a batch gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub name: String,
    pub cores: usize,
    /// Nothing else may run beside it.
    pub exclusive: bool,
}

/// A workflow and its cores, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub name: String,
    pub cores: Vec<usize>,
}

/// Workflows that run at the same time.
pub type Wave = Vec<Seat>;

/// The same with workflows by number: (workflow, cores).
pub type NumberedWave = Vec<(usize, Vec<usize>)>;

/// The least and the most cores that a priority may have of a pool (EXEC-61).
pub fn range(priority: Priority, pool: usize) -> (usize, usize) {
    let pool = pool.max(1);
    let quarter = pool.div_ceil(4);
    let three_quarters = (3 * pool).div_ceil(4);
    match priority {
        Priority::Low => (1, quarter),
        Priority::Normal => (quarter, three_quarters),
        Priority::High => (three_quarters, pool),
        Priority::Exclusive => (pool, pool),
        Priority::Auto => (1, pool),
    }
}

/// The batches of one layer, in order, with the cores of each workflow (EXEC-63 to EXEC-65).
///
/// Workflows without load come first, one core each; then the others, highest priority first and by
/// name within a priority.
pub fn partition(candidates: &[Candidate], pool: usize) -> Vec<Vec<Grant>> {
    let pool = pool.max(1);
    let mut sorted: Vec<&Candidate> = candidates.iter().collect();
    sorted.sort_by_key(|one| (one.is_test, std::cmp::Reverse(rank(one.priority)), &one.name));

    let mut batches: Vec<Batch<'_>> = Vec::new();
    for candidate in sorted {
        let claim = Claim::new(candidate, pool);
        match batches.iter_mut().find(|batch| batch.has_room_for(&claim, pool)) {
            Some(batch) => batch.claims.push(claim),
            None => batches.push(Batch { claims: vec![claim] }),
        }
    }
    batches.into_iter().map(|batch| batch.share_out(pool)).collect()
}

/// The waves of one layer on one machine, from its batches; see the module's header.
///
/// Cores are numbered `0..pool`. Exclusive workflows come first, in the order of their batches.
pub fn place(batches: &[Vec<Grant>], pool: usize) -> Vec<Wave> {
    let pool = pool.max(1);
    let (alone, together): (Vec<&Grant>, Vec<&Grant>) =
        batches.iter().flatten().partition(|grant| grant.exclusive);
    let mut waves: Vec<Wave> = alone.into_iter().map(|grant| deal(&[grant], pool)).collect();
    if !together.is_empty() {
        waves.push(deal(&together, pool));
    }
    waves
}

/// Allocation of a whole plan: [`partition`] and [`place`] for each layer, with workflows by
/// number.
///
/// `layers` holds indexes into `candidates`; the result holds the waves of each layer.
pub fn arrange(
    layers: &[Vec<usize>],
    candidates: &[Candidate],
    pool: usize,
) -> Vec<Vec<NumberedWave>> {
    let arrange_layer = |layer: &Vec<usize>| {
        let members: Vec<Candidate> = layer.iter().map(|&i| candidates[i].clone()).collect();
        let number = |seat: Seat| {
            let found = layer.iter().find(|&&i| candidates[i].name == seat.name);
            (*found.expect("seats are made from candidates"), seat.cores)
        };
        let waves = place(&partition(&members, pool), pool);
        waves.into_iter().map(|wave| wave.into_iter().map(number).collect()).collect()
    };
    layers.iter().map(arrange_layer).collect()
}

/// Deals out cores in turn, each grant going on where the one before ended.
fn deal(grants: &[&Grant], pool: usize) -> Wave {
    let mut next = 0;
    let mut seat = |grant: &&Grant| {
        let first = next;
        next += grant.cores.min(pool);
        Seat { name: grant.name.clone(), cores: (first..next).map(|core| core % pool).collect() }
    };
    grants.iter().map(&mut seat).collect()
}

/// EXCLUSIVE > HIGH > NORMAL > AUTO > LOW.
fn rank(priority: Priority) -> u8 {
    match priority {
        Priority::Low => 0,
        Priority::Auto => 1,
        Priority::Normal => 2,
        Priority::High => 3,
        Priority::Exclusive => 4,
    }
}

/// A candidate with its range, capped at one core per virtual user.
struct Claim<'a> {
    candidate: &'a Candidate,
    min: usize,
    max: usize,
}

/// Claims whose least needs fit the pool together, highest priority first.
struct Batch<'a> {
    claims: Vec<Claim<'a>>,
}

impl<'a> Claim<'a> {
    fn new(candidate: &'a Candidate, pool: usize) -> Claim<'a> {
        let (min, max) = if candidate.is_test { range(candidate.priority, pool) } else { (1, 1) };
        let (min, max) = match candidate.size {
            Size::Any => (min, max),
            Size::AtMost(most) => (min.min(most as usize), max.min(most as usize)),
            Size::Exactly(cores) => (pool.min(cores as usize), pool.min(cores as usize)),
        };
        let users = (candidate.vus_max as usize).max(1);
        Claim { candidate, min: min.min(users), max: max.min(users) }
    }

    fn is_exclusive(&self) -> bool {
        self.candidate.priority == Priority::Exclusive
    }
}

impl Batch<'_> {
    fn has_room_for(&self, claim: &Claim<'_>, pool: usize) -> bool {
        let least: usize = self.claims.iter().map(|claim| claim.min).sum();
        let of_a_kind = self.claims[0].candidate.is_test == claim.candidate.is_test;
        // An exclusive workflow with few users leaves cores idle, and still nobody may join it.
        let exclusive = claim.is_exclusive() || self.claims[0].is_exclusive();
        of_a_kind && !exclusive && least + claim.min <= pool
    }

    /// EXEC-65: an equal share within each range, then corrected one core at a time.
    fn share_out(self, pool: usize) -> Vec<Grant> {
        let share = pool / self.claims.len();
        let mut cores: Vec<usize> =
            self.claims.iter().map(|claim| share.clamp(claim.min, claim.max)).collect();
        while cores.iter().sum::<usize>() > pool {
            let above = |i: &usize| cores[*i] > self.claims[*i].min;
            let Some(lowest) = (0..cores.len()).rev().find(above) else {
                break;
            };
            cores[lowest] -= 1;
        }
        while cores.iter().sum::<usize>() < pool {
            let below = |i: &usize| cores[*i] < self.claims[*i].max;
            let Some(highest) = (0..cores.len()).find(below) else {
                break;
            };
            cores[highest] += 1;
        }
        let grant = |(claim, cores): (&Claim<'_>, usize)| Grant {
            name: claim.candidate.name.clone(),
            cores,
            exclusive: claim.is_exclusive(),
        };
        self.claims.iter().zip(cores).map(grant).collect()
    }
}
