//! A worker that does not answer gets nothing new, the operator sees why, and one answer brings it back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control::fleet::owner::Policy;
use control::ledger::IdempotencyKey;
use engine::attempt::PlanParcel;
use fence::JobId;
use fleet::bundle::Bundle;
use fleet::client::{ClientOptions, FleetClient, Submission};
use fleet::local::LocalCluster;
use fleet::manager::Manager;
use fleet::wire::proto::FleetNode;
use fleet::worker::{Worker, WorkerConfig};
use node::config::CredentialFiles;
use node::http::HttpConfig;
use node::{Config, Member};
use target::{RunningTarget, Target, TargetConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::service::Routes;

use crate::crew::{Played, Service, report};

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
        let world =
            Self { temp, local, manager, _worker: worker, played, _member: member, client, target };
        world.until("both workers", async || world.cores().await == (65, 65)).await;
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
        let fleet = self.client.fleet().await.unwrap();
        fleet.nodes.into_iter().find(|node| node.node == name).unwrap()
    }

    async fn submit(&self, number: u64) -> JobId {
        let path = self.temp.path().join("plan.yaml");
        let load = "vus: 1, duration: 1s, pacing: 50ms";
        let text = format!(
            "target: http://{}\nworkflows: [ {{ name: w, load: {{ {load} }}, steps: [ {{ get: / }} ] }} ]\n",
            self.target.addr()
        );
        std::fs::write(&path, text).unwrap();
        let (plan, parcel) = PlanParcel::pack(&path, &plan::ReadOptions::new(&|_| None)).unwrap();
        let bundle = Bundle::of_plan(&plan, parcel, Policy::default()).unwrap();
        let bytes = bundle.encode().unwrap().into();
        let bundle = self.client.put(bytes, Arc::new(|_, _| ())).await.unwrap();
        let key = IdempotencyKey { client: "test".to_owned(), sequence: number, nonce: [7; 16] };
        let (key, name, age) = (key.to_string(), "w".to_owned(), Duration::ZERO);
        self.client.submit(&Submission { key, name, bundle, age }).await.unwrap().job
    }

    async fn until_completed(&self, job: JobId) {
        self.until("the job's end", async || {
            let status = self.client.status(job).await.unwrap();
            assert!(matches!(&status.outcome[..], "" | "COMPLETED"), "{status:?}");
            status.outcome == "COMPLETED"
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

/// ARCH-6, ARCH-71, ARCH-117, ARCH-134, ARCH-136, R21: a worker that is alive to membership and does not answer. The
/// job that wanted its cores runs on the other one. Its being busy by 100 % is no fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_answer_gets_nothing_new_until_it_does() {
    let world = World::start().await;
    let opened = r#"volley_breaker_openings_total{target="worker"}"#;
    assert_eq!(world.shown().await.routing, "route", "a generator may be busy");

    world.played.silent.store(true, Ordering::Relaxed);
    let job = world.submit(1).await;
    world.until("a verdict", async || !world.shown().await.why.is_empty()).await;
    let shown = world.shown().await;
    assert!(shown.why.contains("open: no answer 3 times in"), "{shown:?}");
    assert_eq!((&shown.routing[..], &shown.state[..]), ("drain", "alive"), "{shown:?}");
    let asked = world.played.reserves.load(Ordering::Relaxed);
    world.until_completed(job).await;
    assert_eq!(world.played.reserves.load(Ordering::Relaxed), asked, "nothing new");
    assert_eq!(world.client.fleet().await.unwrap().cores, 1);
    world.until("the metrics", async || world.metric(opened).await > 0).await;
    assert_eq!(world.metric(r#"volley_breakers_open{target="worker"}"#).await, 1);

    // One trial after each cool-down, and no more.
    let looks = world.played.looks.load(Ordering::Relaxed);
    tokio::time::sleep(2 * COOL_DOWN).await;
    assert!(world.played.looks.load(Ordering::Relaxed) - looks <= 2);

    world.played.silent.store(false, Ordering::Relaxed);
    world.until("it is well again", async || world.shown().await.routing == "route").await;
    assert_eq!(world.shown().await.why, "");
    let before = world.metric(opened).await;

    // ARCH-SC-37: it refuses by name now, again and again, and that is an answer.
    let jobs = [world.submit(2).await, world.submit(3).await, world.submit(4).await];
    for job in jobs {
        world.until_completed(job).await;
    }
    assert!(world.played.reserves.load(Ordering::Relaxed) > asked);
    assert_eq!((world.metric(opened).await, world.shown().await.routing), (before, "route".into()));
}
