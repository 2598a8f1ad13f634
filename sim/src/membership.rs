//! The scenario `membership`: members under attack, and the figures of failure detection.
//!
//! ```text
//! chaos ──▶ world: a discrete-event network ──▶ Swim: the product's own pure code ──▶ changes ──▶ checks
//! ```
//!
//! A run has two phases. In the first, faults happen and every change of every table is checked. In
//! the second, all faults stop, and within a bound everybody must know exactly who is there, and in
//! which life. `figures` measures with the same world what detection costs and how good it is.

mod chaos;
mod check;
pub mod figures;
mod plan;
pub mod scoreboard;
pub(crate) mod world;

use std::time::Duration;

use ::membership::lifeguard::LocalHealth;

use crate::outcome::{Histories, Outcome};
use crate::scenario::{Order, Scenario};
use crate::{event, shim, trace};

use chaos::Chaos;
use check::Checks;
use plan::{Class, Mark, Plan};
use world::World;

pub const SCENARIO: Scenario = Scenario {
    name: "membership",
    about: "members: probes, suspicions, deaths, lives, farewells, merging",
    marks: Mark::NAMES,
    faults: Class::NAMES,
    run,
};

/// Faults and checks happen this often.
const SLICE: Duration = Duration::from_millis(100);

/// Whole tables are looked at after so many slices.
const LOOK_EVERY: u64 = 10;

/// So long nothing may happen once everybody knows everybody.
const QUIET: Duration = Duration::from_secs(20);

fn run(order: &Order) -> Outcome {
    shim::install(order.seed);
    trace::start(order.verbose);
    let plan = Plan::draw(order.seed);
    event!("{plan:?}");
    let mut world = World::new(order.seed, plan.members, &plan.settings);
    world.log = Some(Vec::new());
    world.traced = true;
    let mut checks = Checks::new(&plan);
    let mut chaos = Chaos::new(plan);
    drive(&mut world, &mut chaos, &mut checks);
    let (hash, events) = trace::hash();
    checks.count_all(&world);
    Outcome {
        seed: order.seed,
        trace_hash: format!("{hash:016x}"),
        trace_events: events,
        simulated_ms: world.now.as_millis() as u64,
        core_ms: 0,
        faults: chaos.done,
        marks: checks.marks,
        histories: Histories::default(),
        counts: checks.counts,
        violations: checks.violations,
    }
}

/// Both phases, and a time of quiet.
fn drive(world: &mut World, chaos: &mut Chaos, checks: &mut Checks) {
    while world.now < chaos.plan.abuse && !checks.failed() {
        slice(world, checks);
        chaos.step(world, checks);
    }
    chaos.stop(world, checks);
    let (start, bound) = (world.now, chaos.plan.calm_bound(world.count()));
    event!("calm, for at most {} s", bound.as_secs());
    // A probe that began in the storm may still fail in the calm, at a member that probes as slowly
    // as can be.
    let aftermath = chaos.plan.settings.probe_period * (u32::from(LocalHealth::WORST) + 2);
    while (!checks.is_whole(world) || world.now - start < aftermath) && !checks.failed() {
        if world.now - start > bound {
            let what = checks.what_is_amiss(world);
            checks.violate("MEMB.converge", world.now, what);
            return;
        }
        slice(world, checks);
    }
    event!("whole");
    checks.add("milliseconds to converge", (world.now - start).as_millis() as u64);
    checks.expect_quiet();
    let whole = world.now;
    while world.now - whole < QUIET && !checks.failed() {
        slice(world, checks);
    }
    if !checks.failed() && !checks.is_whole(world) {
        let what = checks.what_is_amiss(world);
        checks.violate("MEMB.stable", world.now, what);
    }
}

fn slice(world: &mut World, checks: &mut Checks) {
    world.run(SLICE);
    trace::set_time(world.now.as_micros() as u64);
    checks.changes(world);
    let number = world.now.as_millis() / SLICE.as_millis();
    if number.is_multiple_of(u128::from(LOOK_EVERY)) {
        for index in 0..world.count() {
            let beat = checks.next_beat(world, index);
            world.beat(index, beat);
        }
        checks.changes(world);
        checks.look(world);
    }
}
