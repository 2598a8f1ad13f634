//! The scenario `ledger`: whole ledger nodes under attack.
//!
//! ```text
//! clients ──errand──▶ agent ─▶ Node ─▶ gRPC ─▶ turmoil ─▶ other nodes        chaos: links, processes, disks, clocks
//!    │                           └─▶ WAL (as a task) ─▶ FaultyDisk            checks: between two steps
//!    └─▶ oracle ─▶ linearizability
//! ```
//!
//! A run has two phases. In the first, faults happen and safety is checked all the time. In the
//! second, all faults stop, and within a bound the group must be whole: one leader, the same state
//! everywhere, every question answered. Without the second phase a group that refuses everything
//! would pass.

mod agent;
mod chaos;
mod check;
mod class;
mod client;
mod converge;
mod host;
mod model;
mod operator;
mod oracle;
mod plan;
mod transport;
mod watch;
mod world;

use std::panic;
use std::rc::Rc;
use std::time::Duration;

use turmoil::Sim;

use chaos::Chaos;
use check::Checks;
use class::{Class, Mark};
use client::{Client, WorkerReports};
use converge::Convergence;
use plan::Plan;
use world::World;

use crate::outcome::Outcome;
use crate::scenario::{Order, Scenario};
use crate::{event, panics, shim, trace};

pub const SCENARIO: Scenario = Scenario {
    name: "ledger",
    about: "ledger nodes: elections, log, snapshots, sessions, blobs, membership",
    marks: Mark::NAMES,
    faults: Class::NAMES,
    run,
};

/// Whole states are looked at this often.
const LOOK_EVERY_MS: u64 = 250;

fn run(order: &Order) -> Outcome {
    shim::install(order.seed);
    trace::start(order.verbose);
    ledger::seed(order.seed);
    let plan = Plan::draw(order.seed);
    event!("{plan:?}");
    let world = World::new(plan);
    panic::set_hook(Box::new(|info| panics::note(info.to_string())));
    let office = WorkerReports::new(Rc::clone(&world));
    let mut sim = build(&world, &office);
    let histories = drive(&mut sim, &world, &office);
    // Destructors must not run on half of a world: the process ends anyway.
    std::mem::forget(sim);
    let (hash, events) = trace::hash();
    let results = world.results();
    Outcome {
        seed: order.seed,
        trace_hash: format!("{hash:016x}"),
        trace_events: events,
        simulated_ms: trace::now_ms(),
        core_ms: 0,
        faults: results.faults,
        marks: results.marks,
        histories,
        counts: results.counts,
        violations: results.violations,
    }
}

fn build(world: &Rc<World>, office: &Rc<WorkerReports>) -> Sim<'static> {
    let plan = &world.plan;
    let mut sim = turmoil::Builder::new()
        .rng_seed(plan.seed)
        .tick_duration(plan.tick)
        .simulation_duration(Duration::from_secs(86_400))
        .min_message_latency(plan.latency.0)
        .max_message_latency(plan.latency.1)
        .tcp_capacity(4_096)
        .enable_random_order()
        .build();
    for number in 0..plan.nodes {
        let world = Rc::clone(world);
        let name = world.hosts[number].name.clone();
        sim.host(name, move || host::run(Rc::clone(&world), number));
    }
    let office = Rc::clone(office);
    sim.client("clients", async move {
        for number in 0..office.world.plan.clients {
            tokio::task::spawn_local(Client::new(number, Rc::clone(&office)).work());
        }
        tokio::task::spawn_local(operator::work(Rc::clone(&office)));
        std::future::pending::<()>().await;
        Ok(())
    });
    sim
}

/// Both phases.
fn drive(
    sim: &mut Sim<'_>,
    world: &Rc<World>,
    office: &Rc<WorkerReports>,
) -> crate::outcome::Histories {
    let mut chaos = Chaos::new(Rc::clone(world));
    let mut checks = Checks::new(Rc::clone(world));
    let mut convergence: Option<Convergence> = None;
    let mut look_at = 0;
    loop {
        let now = sim.elapsed();
        shim::set_time(now.as_nanos() as u64);
        trace::set_time(now.as_micros() as u64);
        if let Err(error) = sim.step() {
            world.violate("harness.step", error.to_string());
        }
        for info in panics::taken() {
            world.violate("P10.panic", info);
        }
        checks.notices();
        let now_ms = trace::now_ms();
        checks.cut_off(&chaos.isolated(), now_ms);
        if now_ms >= look_at {
            look_at = now_ms + LOOK_EVERY_MS;
            checks.states();
            checks.isolation(now_ms);
            world.look_for_marks();
        }
        chaos.step(sim, now_ms);
        if world.failed() {
            break;
        }
        if let Some(convergence) = &mut convergence {
            if convergence.step(world, office, now_ms) {
                break;
            }
        } else if now >= world.plan.abuse {
            event!("calm");
            chaos.stop(sim);
            world.calm.set(true);
            convergence = Some(Convergence::new(now_ms));
        }
    }
    checks.states();
    office.oracle.check(world, &model::JobModel { retries: host::RETRIES })
}
