//! The fleet scenario: jobs on many workers under many managers, driven by the product's own pure
//! parts.
//!
//! Real: the owner of a job, the worker, claims, the queue, the ledger's state machine, statistics
//! from the stream of an attempt to the merged result. Models: the group that replicates the
//! ledger, membership, the engine, the target, the network, disks and clocks. Nothing runs between
//! events, so an hour of a fleet takes seconds.

mod book;
mod chaos;
mod check;
mod desk;
mod engine;
mod lossy;
mod manager;
mod plan;
mod result;
mod watch;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::outcome::{Histories, Outcome};
use crate::scenario::{Order, Scenario};
use crate::{canary, event, shim, trace};

use chaos::Chaos;
use plan::{Class, Mark, Plan, Size};
use world::World;

pub const SCENARIO: Scenario = Scenario {
    name: "fleet",
    about: "jobs on workers and managers that die, stand still and lose each other",
    marks: Mark::NAMES,
    faults: Class::NAMES,
    run: small,
};

/// The size of the product's promise.
pub const LARGE: Scenario = Scenario {
    name: "fleet-large",
    about: "the same with 64 workers and 10,000 virtual users",
    marks: &[],
    faults: Class::NAMES,
    run: large,
};

/// What a lossy network must not do. A seed is an hour.
pub const LOSSY: Scenario = Scenario {
    name: "fleet-lossy",
    about: "an hour of 20 % loss and pauses of a second: nobody who lives is taken for lost",
    marks: &[],
    faults: lossy::FAULTS,
    run: lossy,
};

/// Faults happen, and everything is looked at, this often.
const SLICE: Duration = Duration::from_millis(50);
/// Whether everything is over is looked at once in so many.
const SLICES_PER_LOOK: u32 = 20;

fn small(order: &Order) -> Outcome {
    run(order, Size::Small)
}

fn large(order: &Order) -> Outcome {
    run(order, Size::Large)
}

fn lossy(order: &Order) -> Outcome {
    run(order, Size::Lossy)
}

fn run(order: &Order, size: Size) -> Outcome {
    shim::install(order.seed);
    trace::start(order.verbose);
    let plan = Plan::draw(order.seed, size);
    event!("{plan:?}");
    let mut world = World::new(plan, canary::in_a_model());
    let mut chaos = Chaos::default();
    chaos.begin(&mut world);
    drive(&mut world, &mut chaos);
    let (hash, events) = trace::hash();
    Outcome {
        seed: order.seed,
        trace_hash: format!("{hash:016x}"),
        trace_events: events,
        simulated_ms: world.now.as_millis() as u64,
        core_ms: 0,
        histories: Histories::default(),
        counts: counts(&world),
        faults: world.faults,
        marks: world.marks,
        violations: world.violations,
    }
}

fn drive(world: &mut World, chaos: &mut Chaos) {
    while world.now < world.plan.abuse && world.violations.is_empty() {
        world.run(SLICE);
        check::always(world);
        chaos.step(world);
    }
    chaos.stop(world);
    let end = world.now + world.plan.calm;
    while let Some(open) = check::what_is_open(world).filter(|_| world.violations.is_empty()) {
        if world.now > end {
            world.violate("liveness.end", open);
        }
        // It costs as much as a second of a large fleet.
        for _ in 0..SLICES_PER_LOOK {
            world.run(SLICE);
            check::always(world);
        }
    }
    if world.violations.is_empty() {
        check::in_the_end(world);
    }
}

fn counts(world: &World) -> BTreeMap<String, u64> {
    let jobs = || world.book.state.jobs().map(|(_, job)| job);
    let attempts = || jobs().flat_map(|job| job.attempts());
    let requests: u64 = world.target.requests.values().sum();
    let epochs = jobs().map(|job| {
        let claimed = |event: &&ledger_state::Event| {
            matches!(event.kind, ledger_state::EventKind::Claimed { .. })
        };
        job.history.events().filter(claimed).count() as u64
    });
    let counted = [
        ("jobs", jobs().count() as u64),
        ("attempts", attempts().count() as u64),
        ("attempts revoked", attempts().filter(|one| one.revoked.is_some()).count() as u64),
        ("owners", epochs.sum()),
        ("ledger commits", world.book.commits),
        ("elections", world.book.elections),
        ("requests at the target", requests),
        ("requests counted", jobs().map(|job| job.totals.completed).sum()),
        ("living owners replaced", world.watch.owners),
        ("living attempts revoked", world.watch.attempts),
        ("leases run out at living workers", world.watch.lapses),
    ];
    let mut counts: BTreeMap<String, u64> =
        counted.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    for job in jobs() {
        if let Some(end) = &job.end {
            *counts.entry(format!("jobs {}", end.outcome)).or_default() += 1;
        }
    }
    counts
}
