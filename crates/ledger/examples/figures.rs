//! Measures a group of three on loopback, with fsync: commits per second, and how long a failover
//! takes.
//!
//! `cargo run --release -p ledger --example figures -- [seconds per step] [kills] [folder]`

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fence::Hlc;
use ledger::blobs::BlobLimits;
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger::{Bootstrap, Node, NodeConfig, TcpTransport};
use ledger_state::{CreateJob, IdempotencyKey, Submission};
use tokio::time::{Instant, sleep};

const WITHIN: Duration = Duration::from_secs(30);

struct Group {
    addresses: Vec<String>,
    root: PathBuf,
    nodes: Vec<Option<Node>>,
}

fn config(address: &str, addresses: &[String]) -> NodeConfig {
    let mut config = NodeConfig {
        address: address.to_owned(),
        bootstrap: Bootstrap::Peers(addresses.to_vec()),
        ..NodeConfig::default()
    };
    config.state_limits.jobs = 50_000_000;
    config.state_limits.bytes = 16 << 30;
    config
}

fn open(folder: &Path) -> Result<Storage, String> {
    let options = StoreOptions {
        node: None,
        draw: Arc::new(draw),
        clock: Arc::new(Hlc::default),
        wal: wal::Options::default(),
        blobs: BlobLimits::default(),
        snapshot_bytes: 4 << 30,
    };
    let disk = Arc::new(wal::RealDisk);
    Storage::open(disk, folder.to_owned(), options, WalOwner::Thread)
        .map_err(|error| error.to_string())
}

/// Good enough for ids of a measurement.
fn draw() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl Group {
    async fn start(root: PathBuf) -> Self {
        let listeners: Vec<_> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let addresses = listeners
            .iter()
            .map(|listener| listener.local_addr().expect("an address").to_string())
            .collect();
        drop(listeners);
        let mut group = Self { addresses, root, nodes: vec![None, None, None] };
        for index in 0..3 {
            group.up(index).await;
        }
        group.leader().await;
        group
    }

    /// A former life may need a moment to let go of folder and port.
    async fn up(&mut self, index: usize) {
        let folder = self.root.join(index.to_string());
        let mut problem = String::new();
        for _ in 0..500 {
            match open(&folder) {
                Ok(storage) => {
                    let config = config(&self.addresses[index], &self.addresses);
                    match Node::start(config, storage, Arc::new(TcpTransport)).await {
                        Ok(node) => {
                            self.nodes[index] = Some(node);
                            return;
                        }
                        Err(error) => problem = error.to_string(),
                    }
                }
                Err(error) => problem = error,
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("node {index} does not start: {problem}");
    }

    async fn leader(&self) -> usize {
        loop {
            let leads = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.status().leads);
            if let Some(index) = self.nodes.iter().position(leads) {
                return index;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}

fn job(client: u64, number: u64) -> CreateJob {
    CreateJob {
        tenant: "figures".to_owned(),
        key: IdempotencyKey { client: client.to_string(), sequence: number, nonce: [0; 16] },
        fingerprint: [1; 32],
        name: "x".repeat(100),
        plan: ledger::blobs::reference(b"plan"),
        age_ms: 0,
        rehearsal: true,
    }
}

fn percentile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

async fn throughput(node: &Node, step: u64, clients: u64, seconds: f64) {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let calls = (0..clients).map(|client| {
        let node = node.handle();
        tokio::spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                let number = times.len() as u64;
                let answer = node.submit(job(step << 32 | client, number), WITHIN).await;
                assert!(
                    matches!(answer, Submission::Accepted { duplicate: false, .. }),
                    "{answer:?}"
                );
                times.push(began.elapsed());
            }
            times
        })
    });
    let mut times = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        times.extend(call.await.expect("a client"));
    }
    times.sort_unstable();
    println!(
        "{clients:>4} clients: {:>8.0} commits/s, p50 {:?}, p99 {:?}",
        times.len() as f64 / seconds,
        percentile(&times, 0.5),
        percentile(&times, 0.99),
    );
}

async fn failovers(group: &mut Group, kills: u64) {
    let election = NodeConfig::default().timing.election_max;
    let mut times = Vec::new();
    for kill in 0..kills {
        let leader = group.leader().await;
        let survivor = (leader + 1) % 3;
        let began = Instant::now();
        group.nodes[leader] = None;
        let node = group.nodes[survivor].as_ref().expect("a survivor").handle();
        while !matches!(node.submit(job(1 << 40, kill), WITHIN).await, Submission::Accepted { .. })
        {
        }
        times.push(began.elapsed());
        tracing::info!(kill, leader, took = ?began.elapsed(), "failover");
        group.up(leader).await;
        let back = group.nodes[leader].as_ref().expect("the old leader").handle();
        let caught_up = back.read(ledger::ReadLevel::Strong, WITHIN, |_| ()).await;
        caught_up.expect("a strong read at the node that came back");
    }
    times.sort_unstable();
    let of = |share| {
        let time = percentile(&times, share);
        format!("{time:?} = {:.2} election timeouts", time.as_secs_f64() / election.as_secs_f64())
    };
    println!("{kills} kills of the leader: p50 {}, p99 {}, longest {}", of(0.5), of(0.99), of(1.0));
}

fn main() {
    // RUST_LOG=ledger=debug tells what a slow failover was waiting for.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(3.0, |text| text.parse().expect("seconds"));
    let kills = arguments.next().map_or(20, |text| text.parse().expect("kills"));
    let root = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let root = root.join(format!("ledger-figures-{}", std::process::id()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut group = Group::start(root.clone()).await;
        let leader = group.leader().await;
        for (step, clients) in (1..).zip([1, 16, 128]) {
            let node = group.nodes[leader].as_ref().expect("the leader");
            throughput(node, step, clients, seconds).await;
        }
        if kills > 0 {
            failovers(&mut group, kills).await;
        }
    });
    let _ = std::fs::remove_dir_all(root);
}
