//! One host: opens its data folder, starts the node, and waits until the node gives up or the host
//! is taken down.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fence::{ClockSettings, Hlc, HybridClock, NodeId, Tick};
use ledger::blobs::BlobLimits;
use ledger::config::Limits;
use ledger::store::{Recovered, Storage, StoreOptions, WalOwner};
use ledger::{Bootstrap, Node, NodeConfig};
use tokio::sync::mpsc;

use super::agent;
use super::class::Mark;
use super::transport::{PORT, SimTransport};
use super::watch::Watch;
use super::world::{Life, WALLS, World};
use crate::event;

/// Where a node keeps its data, on the disk of its host.
pub const FOLDER: &str = "/data";

/// Attempts after the first one; the ledger's default.
pub const RETRIES: u32 = 3;

/// How the others reach it.
pub fn address(host: usize) -> String {
    format!("n{}:{PORT}", host + 1)
}

fn node_id(host: usize) -> NodeId {
    NodeId(host as u128 + 1)
}

/// The software of a host. It never ends by itself: a node that gives up is noted, and the
/// supervisor restarts it.
pub async fn run(world: Rc<World>, host: usize) -> turmoil::Result {
    let slot = &world.hosts[host];
    slot.starts.set(slot.starts.get() + 1);
    tokio::task::spawn_local(stalls(Rc::clone(&world), host));
    let why = match start(&world, host).await {
        Ok(node) => {
            let (send, inbox) = mpsc::unbounded_channel();
            *slot.node.borrow_mut() = Some(Rc::clone(&node));
            *slot.inbox.borrow_mut() = Some(send);
            tokio::task::spawn_local(agent::serve(Rc::clone(&node), inbox));
            let mut failed = node.failed();
            let why = failed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            why.unwrap_or_else(|| "the node has ended".to_owned())
        }
        Err(why) => why,
    };
    // With the power off nothing it says is its own fault.
    if slot.disk.powered() {
        *slot.life.borrow_mut() = Life::Stopped(why);
    }
    *slot.node.borrow_mut() = None;
    *slot.inbox.borrow_mut() = None;
    std::future::pending().await
}

/// After a pause all the time that has passed is noticed at once.
async fn stalls(world: Rc<World>, host: usize) {
    let slot = &world.hosts[host];
    loop {
        slot.stall.notified().await;
        tokio::time::advance(Duration::from_millis(slot.stall_ms.get())).await;
    }
}

async fn start(world: &Rc<World>, host: usize) -> Result<Rc<Node>, String> {
    let plan = &world.plan;
    let slot = &world.hosts[host];
    let disk = Arc::new(slot.disk.clone());
    let options = StoreOptions {
        node: Some(node_id(host)),
        draw: draw(plan.seed, host, slot.starts.get()),
        clock: clock(host),
        wal: wal::Options::small(plan.segment_bytes),
        blobs: BlobLimits::default(),
        snapshot_bytes: 64 << 20,
    };
    let opened = Storage::open(disk, PathBuf::from(FOLDER), options, WalOwner::Task);
    let storage = opened.map_err(|error| format!("open: {error}"))?;
    note_recovery(world, host, storage.recovered());
    *slot.applied.borrow_mut() = Some(storage.shared());
    let peers = (0..plan.nodes).map(address).collect();
    let mut config = NodeConfig {
        address: address(host),
        bootstrap: Bootstrap::Peers(peers),
        wall_ms: WALLS[host],
        ..NodeConfig::default()
    };
    config.limits = Limits {
        batch_bytes: 4 << 10,
        proposal_bytes: 4 << 10,
        snapshot_entries: plan.snapshot_after,
        keep_entries: plan.snapshot_after / 2,
        ..Limits::default()
    };
    let transport = Arc::new(SimTransport { host: host as u64 });
    let watch = Arc::new(Watch { host });
    let node = Node::start_observed(config, storage, transport, watch).await;
    node.map(Rc::new).map_err(|error| format!("start: {error}"))
}

fn note_recovery(world: &World, host: usize, recovered: &Recovered) {
    event!("n{} opened: {recovered:?}", host + 1);
    if recovered.wal.torn.is_some() {
        world.reach(Mark::TornTailCut);
    }
    if recovered.lost_disk.is_some() {
        event!("n{} has lost its disk", host + 1);
    }
}

/// Numbers for ids, from the seed.
fn draw(seed: u64, host: usize, start: u64) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let mut random = fastrand::Rng::with_seed(seed ^ (host as u64) << 32 ^ start << 40);
    let state = AtomicU64::new(random.u64(..));
    Arc::new(move || {
        let mut random = fastrand::Rng::with_seed(state.load(Ordering::Relaxed));
        let drawn = random.u64(..);
        state.store(random.u64(..), Ordering::Relaxed);
        drawn
    })
}

/// Stamps of log records, by the host's own wall clock.
fn clock(host: usize) -> Arc<dyn Fn() -> Hlc + Send + Sync> {
    let clock = Mutex::new(HybridClock::start(node_id(host), 0, ClockSettings::default()));
    Arc::new(move || {
        let mut clock = clock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match clock.tick(WALLS[host]()) {
                Tick::Stamp(stamp) => return stamp,
                Tick::NeedsReservation(until) => clock.reserved(until),
            }
        }
    })
}
