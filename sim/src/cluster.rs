//! The scenario `cluster`: a whole datacenter of the product's own managers, workers and clients.
//!
//! ```text
//! FleetClient ─▶ Manager ─▶ Worker ─▶ a model of the engine ─▶ the target, which counts
//!       gRPC, gossip ─▶ turmoil ─▶ others           chaos: links, processes, power, files; users who steer and cancel
//! ```
//!
//! Real: every task of a manager, a worker and a client, with the ledger, membership, discovery and
//! gRPC under them. Not real: sockets (turmoil), TLS (identities are introduced instead), the
//! threads that generate load, clocks, and the ledger's disk. What else nodes write lies in real
//! files in memory.
//!
//! A run has two phases, as that of the ledger: abuse, and a calm in which every job must come to
//! its result. Then each result is compared with what the target has seen.

mod chaos;
mod check;
mod client;
mod connection;
mod engine;
mod hosts;
mod network;
mod plan;
mod stream;
mod target;
mod world;

use std::panic;
use std::rc::Rc;
use std::time::Duration;

use turmoil::Sim;

use chaos::Chaos;
use plan::{CALM, Class, Mark, Plan, Size, TICK};
use world::World;

use crate::outcome::{Histories, Outcome};
use crate::scenario::{Order, Scenario};
use crate::{event, panics, shim, trace};

pub const SCENARIO: Scenario = Scenario {
    name: "cluster",
    about: "the product's own managers, workers and clients: jobs from their submission to their result",
    marks: Mark::NAMES,
    faults: Class::NAMES,
    run: |order| run(order, Size::Usual),
};

/// Many workers and virtual users.
pub const LARGE: Scenario = Scenario {
    name: "cluster-large",
    about: "the same with 32 workers and thousands of virtual users",
    marks: &[],
    faults: Class::NAMES,
    run: |order| run(order, Size::Large),
};

/// What a lossy network must not do.
pub const LOSSY: Scenario = Scenario {
    name: "cluster-lossy",
    about: "20 % loss and pauses of a second: nobody who lives is taken for lost",
    marks: &[],
    faults: plan::LOSSY_NAMES,
    run: |order| run(order, Size::Lossy),
};

fn run(order: &Order, size: Size) -> Outcome {
    shim::install(order.seed);
    trace::start(order.verbose);
    ledger::seed(order.seed);
    show_logs(order.verbose);
    let plan = Plan::draw(order.seed, size);
    event!("{plan:?}");
    let world = World::new(plan);
    panic::set_hook(Box::new(|info| panics::note(info.to_string())));
    let mut sim = build(&world);
    drive(&mut sim, &world);
    // Destructors must not run on half of a world: the process ends anyway.
    std::mem::forget(sim);
    let _ = std::fs::remove_dir_all(world.folder.path());
    let (hash, events) = trace::hash();
    Outcome {
        seed: order.seed,
        trace_hash: format!("{hash:016x}"),
        trace_events: events,
        simulated_ms: trace::now_ms(),
        core_ms: 0,
        histories: Histories::default(),
        counts: world.counts.take(),
        faults: world.faults.take(),
        marks: world.marks.take(),
        violations: world.violations.take(),
    }
}

/// What the nodes log, between the events of the trace. A quiet run has a filter too: making one
/// draws keys of hash maps, and both kinds of run must draw the same.
fn show_logs(verbose: bool) {
    let filter = match verbose {
        true => tracing_subscriber::EnvFilter::try_from_default_env(),
        false => Ok("off".into()),
    };
    let filter = filter.unwrap_or_else(|_| "info,openraft=off".into());
    let shown = tracing_subscriber::fmt().with_env_filter(filter).without_time();
    let _ = shown.with_writer(std::io::stderr).with_ansi(false).try_init();
}

fn build(world: &Rc<World>) -> Sim<'static> {
    let plan = &world.plan;
    let mut sim = turmoil::Builder::new()
        .rng_seed(plan.seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(86_400))
        .min_message_latency(plan.latency.0)
        .max_message_latency(plan.latency.1)
        .tcp_capacity(4_096)
        .udp_capacity(4_096)
        .enable_random_order()
        .build();
    for number in 0..world.hosts.len() {
        let world = Rc::clone(world);
        let name = world.hosts[number].name.clone();
        sim.host(name, move || hosts::run(Rc::clone(&world), number));
    }
    let world = Rc::clone(world);
    sim.client("clients", async move {
        for number in 0..world.plan.jobs.len() {
            tokio::task::spawn_local(client::user(Rc::clone(&world), number));
        }
        if world.plan.has(Class::Voters) {
            tokio::task::spawn_local(client::operator(Rc::clone(&world)));
        }
        std::future::pending::<()>().await;
        Ok(())
    });
    sim
}

/// Both phases.
fn drive(sim: &mut Sim<'_>, world: &Rc<World>) {
    let mut chaos = Chaos::new(Rc::clone(world), sim);
    let mut calm_since = None;
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
        check::always(world);
        chaos.step(sim, trace::now_ms());
        if world.failed() {
            return;
        }
        let Some(since) = calm_since else {
            if now >= world.plan.abuse {
                chaos.stop(sim);
                calm_since = Some(now);
            }
            continue;
        };
        match check::what_is_open(world) {
            None => break,
            Some(open) if now > since + CALM => return world.violate("liveness.end", open),
            Some(_) => {}
        }
    }
    check::in_the_end(world);
}
