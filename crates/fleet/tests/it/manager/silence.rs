//! A worker that does not answer gets nothing new, the operator sees why, and one answer brings it
//! back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fence::JobId;
use fleet::client::{ClientOptions, FleetClient};
use fleet::local::LocalCluster;
use fleet::manager::Manager;
use fleet::wire::proto::{FleetNode, NodeState, Outcome, Routing};
use fleet::worker::{Worker, WorkerConfig};
use node::config::CredentialFiles;
use node::http::HttpConfig;
use node::{Config, Member};
use target::{RunningTarget, Target, TargetConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::service::Routes;

use crate::manager::harness::submit;
use crate::manager::played_worker::{Played, Service, report};

const COOL_DOWN: Duration = Duration::from_secs(2);

struct World {
    temp: TempDir,
    local: LocalCluster,
    manager: Manager,
    /// One that works; it ends with the world.
    _worker: Worker,
    played: Arc<Played>,
    _member: Member,
    client: FleetClient,
    target: RunningTarget,
    submitted: AtomicU64,
}

fn paced(mut config: Config) -> Config {
    config.pace = 0.2;
    config
}

impl World {
    async fn start() -> Self {
        let temp = TempDir::new().unwrap();
        let local = LocalCluster::create(&temp.path().join("cluster"), 1, 2).unwrap();
        let mut config = local.manager_config(&local.managers[0]).unwrap();
        config.member = paced(config.member);
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        config.member.http = Some(HttpConfig { bind, ..HttpConfig::default() });
        config.breaker.cool_down = COOL_DOWN;
        let manager = Manager::start(config).await.unwrap();

        let own = paced(local.node_config(&local.workers[0]).unwrap());
        let worker = Worker::start(WorkerConfig::new(own, 1)).await.unwrap();
        let played = Arc::new(Played::default());
        let mut other = paced(local.node_config(&local.workers[1]).unwrap());
        other.routes = Some(Routes::new(Service::server(&played)));
        other.report = Some(report());
        let member = Member::start(other).await.unwrap();

        let credentials = CredentialFiles {
            certificate: local.client.join("client.pem"),
            key: local.client.join("client-key.pem"),
            ca: local.client.join("ca.pem"),
        };
        let options = ClientOptions::new(credentials, local.addresses());
        let client = FleetClient::connect(options).await.unwrap();
        let target = Target::start(TargetConfig::default()).unwrap();
        let (_worker, _member, submitted) = (worker, member, AtomicU64::new(0));
        let world =
            Self { temp, local, manager, _worker, played, _member, client, target, submitted };
        world.until("both workers", async || world.cores().await == (3, 3)).await;
        world
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !holds().await {
            assert!(began.elapsed() < Duration::from_secs(60), "{what} did not come about");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn cores(&self) -> (u32, u32) {
        let fleet = self.client.fleet().await;
        fleet.map_or((0, 0), |fleet| (fleet.cores, fleet.cores_free))
    }

    /// The worker that the test plays, as `volley status` gets it.
    async fn shown(&self) -> FleetNode {
        let name = self.local.workers[1].node.to_string();
        let began = Instant::now();
        loop {
            match self.client.fleet().await {
                Ok(fleet) => {
                    return fleet.nodes.into_iter().find(|node| node.node == name).unwrap();
                }
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
        }
    }

    async fn submit(&self) -> JobId {
        let sequence = self.submitted.fetch_add(1, Ordering::Relaxed);
        submit(&self.client, self.temp.path(), self.target.addr(), sequence).await
    }

    async fn until_completed(&self, job: JobId) {
        self.until("the job's end", async || {
            // A machine that is busy has no leader now and then.
            let Ok(status) = self.client.status(job).await else { return false };
            let outcome = status.outcome();
            assert!(matches!(outcome, Outcome::Unspecified | Outcome::Completed), "{status:?}");
            outcome == Outcome::Completed
        })
        .await;
    }

    /// The value of a metric.
    async fn metric(&self, name: &str) -> u64 {
        let address = self.manager.member().http_address().unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {page}")).trim().parse().unwrap()
    }
}

/// ARCH-6, ARCH-71, ARCH-117, ARCH-134, ARCH-136, R21: a worker that is alive to membership and
/// does not answer. The jobs that wanted its cores run on the other one. Its being busy by 100 % is
/// no fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_answer_gets_nothing_new_until_it_does() {
    let world = World::start().await;
    let opened = r#"volley_breaker_openings_total{target="worker"}"#;
    assert_eq!(world.shown().await.routing(), Routing::Route, "a generator may be busy");

    world.played.silent.store(true, Ordering::Relaxed);
    // One failure moves a job to the other worker; it takes some of them until three have come
    // after each other.
    let mut jobs = Vec::new();
    while world.shown().await.why.is_empty() {
        assert!(jobs.len() < 100, "no verdict");
        jobs.push(world.submit().await);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let shown = world.shown().await;
    assert!(shown.why.contains("open: no answer 3 times in"), "{shown:?}");
    assert_eq!((shown.routing(), shown.state()), (Routing::Drain, NodeState::Alive), "{shown:?}");
    let asked = world.played.reserves.load(Ordering::Relaxed);
    for job in jobs {
        world.until_completed(job).await;
    }
    assert_eq!(world.played.reserves.load(Ordering::Relaxed), asked, "nothing new");
    world.until("one core", async || world.cores().await.0 == 1).await;
    world.until("the metrics", async || world.metric(opened).await > 0).await;
    assert_eq!(world.metric(r#"volley_breakers_open{target="worker"}"#).await, 1);

    // One trial after each cool-down, and no more.
    let looks = world.played.looks.load(Ordering::Relaxed);
    tokio::time::sleep(2 * COOL_DOWN).await;
    assert!(world.played.looks.load(Ordering::Relaxed) - looks <= 2);

    world.played.silent.store(false, Ordering::Relaxed);
    world.until("it is well again", async || world.shown().await.routing() == Routing::Route).await;
    assert_eq!(world.shown().await.why, "");
    let before = world.metric(opened).await;

    // It refuses by name now, again and again, and that is an answer.
    let refused = world.played.reserves.load(Ordering::Relaxed) + 3;
    while world.played.reserves.load(Ordering::Relaxed) < refused {
        let job = world.submit().await;
        world.until_completed(job).await;
    }
    assert_eq!(
        (world.metric(opened).await, world.shown().await.routing()),
        (before, Routing::Route)
    );
}
