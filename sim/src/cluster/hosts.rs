//! The software of the hosts: the product's own managers and workers on a simulated platform.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fleet::local::ledger_of;
use fleet::manager::{Manager, ManagerConfig};
use fleet::worker::{Worker, WorkerConfig};
use ledger_state::Limits;
use membership::Role;
use membership::discovery::Seed;
use node::secret::GossipKey;
use node::{Config, CredentialFiles, Entropy, Platform};
use trust::Gates;

use super::engine::{Bug, Model};
use super::network::{SimNetwork, identity};
use super::plan::{Class, FOUNDERS};
use super::world::{Life, PORT, World};
use crate::{canary, event};

/// How long clients may repeat a submission, and its key and its job are known after its end.
const SHORT_RETENTION_MS: (u64, u64, u64) = (20_000, 45_000, 50_000);
/// How long blobs are kept then that no job has: longer than a submission may wait for its entry.
const SHORT_GRACE: Duration = Duration::from_secs(20);
/// The numbers of an attempt's end fit in, its statistics do not.
const SMALL_REPORT_BYTES: usize = 200;
/// How often it is looked how many jobs a manager owns.
const LOOK: Duration = Duration::from_millis(20);
/// A node that is told to end has so long.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// The software of a host. It never ends by itself: a node that ends is noted, and the supervisor
/// starts it again.
pub async fn run(world: Rc<World>, host: usize) -> turmoil::Result {
    let slot = &world.hosts[host];
    slot.starts.set(slot.starts.get() + 1);
    slot.owned.set(0);
    tokio::task::spawn_local(stalls(Rc::clone(&world), host));
    let why = match slot.role {
        Role::Manager => manager(&world, host).await,
        _ => worker(&world, host).await,
    };
    event!("{} has ended: {why}", slot.name);
    *slot.life.borrow_mut() = Life::Ended(why);
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

fn config(world: &World, host: usize) -> Config {
    let slot = &world.hosts[host];
    let nowhere = CredentialFiles { certificate: "".into(), key: "".into(), ca: "".into() };
    let key = GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(3)));
    let mut config = Config::new(slot.data.clone(), nowhere, key);
    config.bind = SocketAddr::from(([0, 0, 0, 0], PORT));
    config.advertise = Some(SocketAddr::new(turmoil::lookup(slot.name.as_str()), PORT));
    config.gates = Gates::None;
    let own = config.advertise;
    let others = world.managers().into_iter().filter(|address| Some(*address) != own);
    config.seeds = others.map(Seed::Address).collect();
    config.voters = (0..FOUNDERS).map(|host| world.hosts[host].node).collect();
    let life = slot.starts.get() << 8 | host as u64;
    config.entropy = Entropy::Seed(world.plan.seed.rotate_left(17) ^ life);
    config
}

fn platform(world: &World, host: usize) -> Platform {
    let slot = &world.hosts[host];
    let identity = identity(slot.role, slot.node);
    let conditions = Arc::clone(&world.conditions);
    let network =
        Arc::new(SimNetwork { host: host as u64, identity: identity.clone(), conditions });
    let disk: Arc<dyn wal::Disk> = match slot.role {
        Role::Manager => Arc::new(slot.disk.clone()),
        // Its lock shows that the process before is gone, as on a real machine.
        _ => Arc::new(wal::RealDisk),
    };
    Platform { identity, network, disk, host: node::Host::Simulated }
}

async fn manager(world: &World, host: usize) -> String {
    let mut config = ManagerConfig::new(config(world, host));
    let founders = world.managers().into_iter().take(FOUNDERS);
    config.founders = founders.map(|at| ledger_of(&Seed::Address(at)).to_string()).collect();
    config.join = host >= FOUNDERS;
    config.settings.lease = fence::LeaseTerms::new(world.plan.leases[host]);
    if world.plan.has(Class::Retention) {
        let (retry_window_ms, committed_ttl_ms, kept_ms) = SHORT_RETENTION_MS;
        config.state_limits =
            Limits { retry_window_ms, committed_ttl_ms, kept_ms, ..config.state_limits };
        config.blobs.grace = SHORT_GRACE;
    }
    if world.plan.has(Class::SmallReports) {
        config.settings.result_bytes = SMALL_REPORT_BYTES;
    }
    let manager = match Manager::start_on(config, platform(world, host)).await {
        Ok(manager) => manager,
        Err(error) => return error.to_string(),
    };
    let slot = &world.hosts[host];
    let ended = loop {
        tokio::select! {
            ended = manager.ended() => break Some(ended),
            () = slot.leave.notified() => break None,
            () = tokio::time::sleep(LOOK) => slot.owned.set(manager.jobs()),
        }
    };
    slot.owned.set(0);
    match ended {
        Some(ended) => ended.to_string(),
        None => {
            if let Err(unfinished) = manager.leave(LEAVE_WITHIN).await {
                event!("{} leaves, unfinished: {unfinished}", slot.name);
            }
            "told to end".to_owned()
        }
    }
}

async fn worker(world: &World, host: usize) -> String {
    let mut config = WorkerConfig::new(config(world, host), world.plan.cores);
    config.secrets = Arc::new(|_| None);
    let (seed, classes) = (world.plan.seed, world.plan.classes.clone());
    let bug = canary::in_a_model().as_deref().and_then(Bug::named);
    let (target, sound) = (Arc::clone(&world.target), world.plan.is_mild());
    let engine = Arc::new(Model { host, seed, classes, target, bug, sound });
    let worker = match Worker::start_on(config, platform(world, host), engine).await {
        Ok(worker) => worker,
        Err(error) => return error.to_string(),
    };
    let ended = tokio::select! {
        ended = worker.ended() => Some(ended),
        () = world.hosts[host].leave.notified() => None,
    };
    match ended {
        Some(ended) => ended.to_string(),
        None => {
            worker.shutdown(LEAVE_WITHIN).await;
            "told to end".to_owned()
        }
    }
}
