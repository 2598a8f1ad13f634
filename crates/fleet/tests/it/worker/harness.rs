//! Certificates, a manager, a worker and a target.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::message::{
    Dispatch, EndReport, Placement, ReservationId, Steering, StopMode, Task, WorkerReport,
    WorkerRequest, WorkerResponse,
};
use control::owner::Policy;
use control::owner::context::{self, Handed};
use engine::attempt::{PackedPlan, PackedScript};
use fence::{
    Act, Attempt, BootId, Epoch, Fence, FencedCommand, GroupId, JobId, NodeId, ShardKey, WorkflowNo,
};
use fleet::bundle::Bundle;
use fleet::wire::proto::worker_control_client::WorkerControlClient;
use fleet::wire::{MESSAGE_BYTES_MAX, seal, unseal};
use fleet::worker::{Worker, WorkerConfig};
use ledger_state::{BlobRef, Payload};
use membership::discovery::Seed;
use node::secret::GossipKey;
use node::{Config, CredentialFiles, Member};
use script::heap::Budget;
use script::options::{Options, Place};
use script::program::Script;
use script::source::Sources;
use stats::wire::Schema;
use target::{RunningTarget, Target, TargetConfig};
use tempfile::TempDir;
use tonic::service::Routes;
use tonic::transport::Channel;
use trust::{DevCa, Gates, Role, Validity};

use crate::worker::played_manager::PlayedManager;

const PACE: f64 = 0.2;
pub const JOB: JobId = JobId(77);
pub const GROUP: GroupId = GroupId { cluster: 9, generation: 1 };
pub const LONG: Duration = Duration::from_secs(30);

pub struct World {
    pub temp: TempDir,
    ca: DevCa,
}

impl World {
    pub fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let validity = Validity::starting(now, Duration::from_secs(30 * 86_400));
        let ca = DevCa::create(&temp.path().join("ca"), "test", "ci", validity).unwrap();
        Self { temp, ca }
    }

    fn files(&self, role: Role, number: u128) -> CredentialFiles {
        let (id, folder) = (id(number), self.temp.path().join("certs"));
        let stem = format!("{role}-{id}");
        let (certificate, key, ca) = (
            folder.join(format!("{stem}.pem")),
            folder.join(format!("{stem}-key.pem")),
            folder.join("ca.pem"),
        );
        if !certificate.exists() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            let validity = Validity::starting(now, Duration::from_secs(86_400));
            self.ca.issue(role, "fra", id, validity).unwrap().write(&folder).unwrap();
            std::fs::write(&ca, self.ca.certificate()).unwrap();
        }
        CredentialFiles { certificate, key, ca }
    }

    pub fn config(&self, role: Role, number: u128, seeds: &[SocketAddr]) -> Config {
        let data = self.data(number);
        let mut config = Config::new(
            data,
            self.files(role, number),
            GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(1))),
        );
        config.bind = SocketAddr::from(([127, 0, 0, 1], 0));
        config.gates = Gates::None;
        config.pace = PACE;
        config.seeds = seeds.iter().map(|address| Seed::Address(*address)).collect();
        config
    }

    pub fn data(&self, number: u128) -> PathBuf {
        self.temp.path().join(format!("data-{number}"))
    }
}

pub fn id(number: u128) -> NodeId {
    NodeId(number << 96 | 0xabcd)
}

/// Waits until `holds`, for a minute at most: the machine may be busy.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} did not come about");
}

/// One manager that the test plays, and one worker.
pub struct Fleet {
    pub world: World,
    pub manager: Member,
    pub desk: Arc<PlayedManager>,
    pub worker: Option<Worker>,
    pub target: RunningTarget,
    pub epoch: u64,
}

impl Fleet {
    pub async fn start() -> Self {
        let world = World::new();
        let desk = PlayedManager::new();
        let mut config = world.config(Role::Manager, 1, &[]);
        config.routes = Some(Routes::new(desk.server()));
        let manager = Member::start(config).await.unwrap();
        manager.set_group(GROUP);
        let target = Target::start(TargetConfig::default()).unwrap();
        let mut fleet = Self { world, manager, desk, worker: None, target, epoch: 5 };
        fleet.restart().await;
        fleet
    }

    pub async fn restart(&mut self) {
        let config = self.world.config(Role::Worker, 2, &[self.manager.address()]);
        let worker = Worker::start(WorkerConfig::new(config, 2)).await.unwrap();
        let (seen, boot) = (worker.member().address(), worker.member().life().boot);
        self.worker = Some(worker);
        let view = || self.manager.view();
        until("the manager sees the worker", || {
            let view = view();
            view.entries.iter().any(|entry| entry.peer.address == seen && entry.peer.boot == boot)
        })
        .await;
        let worker = self.worker();
        until("the worker sees the manager", || !worker.member().view().entries.is_empty()).await;
    }

    pub fn worker(&self) -> &Worker {
        self.worker.as_ref().unwrap()
    }

    pub fn boot(&self) -> BootId {
        self.worker().member().life().boot
    }

    pub fn worker_control(&self) -> WorkerControlClient<Channel> {
        let address = self.worker().member().address();
        let channel = self.manager.channel(address, Role::Worker, id(2));
        WorkerControlClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub async fn ask(&self, ask: &WorkerRequest) -> WorkerResponse {
        let until = std::time::Instant::now() + LONG;
        loop {
            match self.worker_control().call(seal(ask).unwrap()).await {
                Ok(answered) => return unseal(answered.get_ref()).unwrap(),
                // It has just started, and learns whom it may obey: an owner asks again.
                Err(status) if status.code() == tonic::Code::Unavailable => {
                    assert!(std::time::Instant::now() < until, "{status:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(status) => panic!("{status:?}"),
            }
        }
    }

    pub fn epoch(&self) -> Epoch {
        Epoch { group: GROUP, number: self.epoch }
    }

    pub fn hold(&self, number: u32) -> ReservationId {
        ReservationId { job: JOB, epoch: self.epoch(), number }
    }

    pub async fn reserve(&self, number: u32, cores: u32) -> WorkerResponse {
        let (hold, receiver) = (self.hold(number), self.boot());
        self.ask(&WorkerRequest::Reserve { hold, receiver, cores, within: LONG }).await
    }

    /// Packs a plan against the target, and remembers what its statistics mean.
    pub fn bundle(&self, text: &str) -> BlobRef {
        let path = self.world.temp.path().join("plan.yaml");
        let text = text.replace("TARGET", &format!("http://{}", self.target.addr()));
        std::fs::write(&path, text).unwrap();
        let (plan, packed) = PackedPlan::pack(&path, &plan::ReadOptions::new(&|_| None)).unwrap();
        let bundle = Bundle::of_plan(&plan, packed, Policy::default()).unwrap();
        let schema: Schema = bundle.schema().unwrap();
        self.desk.book.lock().unwrap().schema = Some(schema);
        self.desk.put(bundle.encode().unwrap())
    }

    /// The same of a script.
    pub fn script(&self, code: &str) -> BlobRef {
        let path = self.world.temp.path().join("script.js");
        let code = code.replace("TARGET", &format!("http://{}", self.target.addr()));
        std::fs::write(&path, code).unwrap();
        let sources = Sources::open(&path, script::modules::builtins()).unwrap();
        let script = Script::new(sources, BTreeMap::new(), Budget::new(1 << 30, 1 << 28));
        let script = Arc::new(script);
        let quiet: script::log::Logger = Arc::new(|_| {});
        // Init code has a runtime of its own, which cannot be entered on a thread of this one.
        let opened = std::thread::scope(|scope| {
            let open = || {
                let known = script::inspect::inspect(&script, &quiet);
                let known = known.unwrap_or_else(|thrown| panic!("{}", thrown.full()));
                let options = serde_json::from_str(&known.options.unwrap()).unwrap();
                let (merged, _) = Options::from_json(&options, Place::Script).unwrap();
                let (resolved, _) = script::options::resolve(merged).unwrap();
                let packed = PackedScript::pack(&script, &resolved.options, "script.js");
                let run = packed.open(&quiet, 1 << 30).unwrap();
                (Arc::new(run), packed)
            };
            scope.spawn(open).join()
        });
        let (run, packed) = opened.unwrap();
        let bundle = Bundle::of_script(&run, packed, Policy::default()).unwrap();
        self.desk.book.lock().unwrap().schema = Some(bundle.schema().unwrap());
        self.desk.put(bundle.encode().unwrap())
    }

    pub fn dispatch(&self, bundle: BlobRef, (shard, shards): (u32, u32), attempt: u32) -> Dispatch {
        let key = shard_key(0, shard);
        let fence = Fence { epoch: self.epoch(), attempt: Attempt(attempt) };
        Dispatch {
            order: FencedCommand::new(self.boot(), key, fence, Act::Start),
            placement: Placement::Own(self.hold(1)),
            task: Task::Load,
            shards,
            bundle,
            context: Payload::Inline(context::encode(&Handed::default())),
            context_version: 0,
            elapsed: Duration::ZERO,
            units_before: 0,
            units_end: None,
            rows: Vec::new(),
            run_at_most: Duration::from_secs(60),
            time_left: None,
            lease: Duration::from_secs(6),
        }
    }

    pub async fn give(&self, dispatch: Dispatch) -> WorkerResponse {
        self.ask(&WorkerRequest::Dispatch(Box::new(dispatch))).await
    }

    pub async fn ready(&self, shard: ShardKey, attempt: u32) {
        until("ready", || {
            let book = self.desk.book.lock().unwrap();
            let is = |tell: &WorkerReport| matches!(tell, WorkerReport::Ready { shard: s, attempt: a } if *s == shard && a.0 == attempt);
            book.tells.iter().any(is)
        })
        .await;
    }

    pub async fn begin(&self, attempts: Vec<(ShardKey, Attempt)>) -> WorkerResponse {
        let (epoch, receiver) = (self.epoch(), self.boot());
        let after = Duration::from_millis(50);
        let (elapsed, clock) = (Duration::ZERO, Duration::ZERO);
        let steering = Steering::default();
        let start = WorkerRequest::Start {
            job: JOB,
            epoch,
            receiver,
            attempts,
            after,
            elapsed,
            clock,
            steering,
        };
        self.ask(&start).await
    }

    pub async fn stop(&self, shard: ShardKey, attempt: u32, how: StopMode) -> WorkerResponse {
        let fence = Fence { epoch: self.epoch(), attempt: Attempt(attempt) };
        let order = FencedCommand::new(self.boot(), shard, fence, Act::Stop);
        self.ask(&WorkerRequest::Stop { order, how, reason: "the test says so".to_owned() }).await
    }

    /// One shard of a plan with one workflow, up to its start.
    pub async fn launch(&self, text: &str, change: impl FnOnce(&mut Dispatch)) -> ShardKey {
        self.launch_bundle(self.bundle(text), change).await
    }

    pub async fn launch_bundle(
        &self,
        bundle: BlobRef,
        change: impl FnOnce(&mut Dispatch),
    ) -> ShardKey {
        assert_eq!(self.reserve(1, 1).await, WorkerResponse::Done);
        let mut dispatch = self.dispatch(bundle, (0, 1), 1);
        change(&mut dispatch);
        let (shard, attempt) = (dispatch.order.shard, dispatch.order.step.attempt);
        assert_eq!(self.give(dispatch).await, WorkerResponse::Done);
        self.ready(shard, attempt.0).await;
        assert_eq!(self.begin(vec![(shard, attempt)]).await, WorkerResponse::Done);
        shard
    }

    /// The end reports, each once, when there are so many.
    pub async fn reports(&self, count: usize) -> Vec<EndReport> {
        let distinct = || {
            let mut reports = self.desk.reports();
            reports.sort_by_key(|report| (report.shard, report.attempt));
            reports.dedup_by_key(|report| (report.shard, report.attempt));
            reports
        };
        until("the end reports", || distinct().len() >= count).await;
        distinct()
    }

    pub async fn forget(&self, report: &EndReport) {
        let (shard, attempt) = (report.shard, report.attempt);
        assert_eq!(self.ask(&WorkerRequest::Forget { shard, attempt }).await, WorkerResponse::Done);
    }

    /// Files in a folder of the worker.
    pub fn files_in(&self, folder: &str) -> usize {
        std::fs::read_dir(self.world.data(2).join(folder)).unwrap().count()
    }
}

pub fn shard_key(workflow: u32, shard: u32) -> ShardKey {
    ShardKey { job: JOB, workflow: WorkflowNo(workflow), shard }
}

/// A plan with one workflow.
pub fn plan(load: &str) -> String {
    format!(
        "target: TARGET\nworkflows: [ {{ name: w, load: {{ {load} }}, steps: [ {{ get: / }} ] }} ]\n"
    )
}
