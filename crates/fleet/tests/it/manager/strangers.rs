//! What good certificates in the wrong hands cannot do: speak for others' attempts, act as an
//! operator, command the fleet.

use control::message::{EndReport, FrameBatch, FrameBatchAck, WorkerReport};
use fence::{Attempt, BootId, JobId, ShardKey, WorkflowNo};
use fleet::client::{ClientOptions, FleetClient};
use fleet::wire::proto::manager_peers_client::ManagerPeersClient;
use fleet::wire::proto::worker_control_client::WorkerControlClient;
use fleet::wire::proto::worker_reports_client::WorkerReportsClient;
use fleet::wire::proto::{self, change_managers_request::Step, steer_request::What};
use fleet::wire::{blob_out, job_bytes, seal, unseal};
use fleet::worker::{Worker, WorkerConfig};
use ledger_state::{AttemptStatus, Counters};
use stats::wire::StreamKey;
use target::{Target, TargetConfig};
use tonic::{Code, Status};
use trust::{Expected, Role};

use crate::manager::harness::{Datacenter, WITHIN, node, submit_load, until};

fn denied<T: std::fmt::Debug>(answer: Result<T, Status>) {
    let status = answer.expect_err("it should have been refused");
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

async fn client(center: &Datacenter, number: u128) -> FleetClient {
    let files = center.files(Role::Client, number);
    FleetClient::connect(ClientOptions::new(files, center.local.addresses())).await.unwrap()
}

async fn worker(center: &Datacenter, number: usize) -> Worker {
    let mut config = center.local.node_config(&center.local.workers[number]).unwrap();
    config.pace = 0.2;
    Worker::start(WorkerConfig::new(config, 1)).await.unwrap()
}

/// Waits until the job is in this state, or has this outcome.
async fn reaches(client: &FleetClient, job: JobId, state: &str) -> proto::JobStatus {
    let begun = tokio::time::Instant::now();
    loop {
        assert!(begun.elapsed() < WITHIN, "{state} did not come about");
        if let Ok(status) = client.status(job).await
            && (status.state().word() == state || status.outcome().word() == state)
        {
            return status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// R26: a worker that never ran a job ends nothing of it, uses up none of its rows, opens no
/// stream, gets no bundle.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_speaks_for_its_own_attempts_only() {
    let center = Datacenter::with_workers(1, 1, |_, _| ()).await;
    let target = Target::start(TargetConfig::default()).unwrap();
    let client = client(&center, 1).await;
    let _worker = worker(&center, 0).await;
    let load = "vus: 1, duration: 2s, pacing: 50ms";
    let job = submit_load(&client, center.temp.path(), target.addr(), 1, load).await;
    reaches(&client, job, "running").await;

    let mut office = WorkerReportsClient::new(center.channel(Role::Worker, 5, 0));
    let shard = ShardKey { job, workflow: WorkflowNo(0), shard: 0 };
    let (attempt, worker, boot) = (Attempt(1), node(5), BootId(1));
    let report = EndReport {
        shard,
        attempt,
        worker,
        boot,
        status: AttemptStatus::Failed,
        error: Some("made up".to_owned()),
        counters: Counters::default(),
        provided: Default::default(),
        frames: 0,
        totals: Vec::new(),
        log: String::new(),
        certain: true,
        sent_until: None,
    };
    let tells = [
        WorkerReport::Ready { shard, attempt },
        WorkerReport::RowsWanted { shard, attempt, set: 0, at_least: 1_000 },
        WorkerReport::Abort { shard, attempt, reason: "because".to_owned() },
        WorkerReport::Ended(Box::new(report.clone())),
        WorkerReport::MoreTime { job, worker, boot, progress: 1 },
    ];
    for tell in tells {
        denied(office.report(seal(&tell).unwrap()).await);
    }
    let key = StreamKey { workflow: 0, shard: 0, attempt: 1, id: 1 };
    let frames = FrameBatch { job, worker, boot, open: vec![key], frames: Vec::new() };
    let answer = office.push_frames(seal(&frames).unwrap()).await.unwrap();
    let FrameBatchAck::Taken { resume, .. } = unseal(answer.get_ref()).unwrap() else { panic!() };
    assert!(resume[0].1.is_err(), "{resume:?}");
    // The same bytes as the job's: who knows the hash of a bundle still has no attempt of it.
    let ledger = center.managers[0].ledger().unwrap();
    assert!(ledger.leads);
    let bundle = fleet::client::blob_of(&std::fs::read(bundle_file(&center)).unwrap());
    denied(office.get_blob(blob_out(&bundle)).await.map(|_| ()));

    let ended = reaches(&client, job, "ended").await;
    assert_eq!(ended.outcome().word(), "COMPLETED", "{ended:?}");
    // Nor does it add anything to a result that is made.
    denied(office.report(seal(&WorkerReport::Ended(Box::new(report.clone()))).unwrap()).await);
    let in_its_name = EndReport { worker: center.local.workers[0].node, ..report };
    denied(office.report(seal(&WorkerReport::Ended(Box::new(in_its_name))).unwrap()).await);
    assert!(client.status(job).await.unwrap().addenda.is_empty());
}

/// The largest blob on the manager's disk: the bundle.
fn bundle_file(center: &Datacenter) -> std::path::PathBuf {
    let config = center.local.manager_config(&center.local.managers[0]).unwrap();
    let mut found = Vec::new();
    let mut folders = vec![config.member.data];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let is_folder = entry.file_type().unwrap().is_dir();
            let is_blob = entry.path().to_string_lossy().contains("blobs");
            if is_folder {
                folders.push(entry.path());
            } else if is_blob {
                found.push((entry.metadata().unwrap().len(), entry.path()));
            }
        }
    }
    found.into_iter().max().unwrap().1
}

/// With operators named, a gate has no rights of its own, and `managers remove` tells nobody who is
/// there.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_is_no_operator() {
    let center = Datacenter::start(1, |config, _| {
        config.member.operators = [node(7)].into();
    })
    .await;
    let client = client(&center, 1).await;
    let nowhere = ([127, 0, 0, 1], 9).into();
    let load = "vus: 1, duration: 2s";
    let job = submit_load(&client, center.temp.path(), nowhere, 1, load).await;
    for (role, number) in [(Role::Gate, 40), (Role::Client, 2)] {
        let mut jobs = center.jobs(role, number, 0);
        let (id, reason) = (job_bytes(job), String::new());
        let nonce = job_bytes(JobId(7));
        denied(
            jobs.cancel(proto::CancelRequest { job: id.clone(), reason, nonce, now: false }).await,
        );
        let what = Some(What::Pause(true));
        denied(jobs.steer(proto::SteerRequest { job: id, what }).await);
        let own = center.local.managers[0].node.to_string();
        denied(jobs.drain(proto::DrainRequest { node: own.clone() }).await);
        for step in [Step::Remove(own), Step::Remove("nobody".into()), Step::Admit("x:1".into())] {
            let request = proto::ChangeManagersRequest { step: Some(step) };
            denied(jobs.change_managers(request).await);
        }
    }
    client.status(job).await.unwrap();
}

/// A manager's certificate that was never admitted to the group commands neither managers nor
/// workers.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_was_never_admitted_commands_nobody() {
    let center = Datacenter::with_workers(1, 1, |_, _| ()).await;
    let client = client(&center, 1).await;
    let worker = worker(&center, 0).await;
    let mut desk = ManagerPeersClient::new(center.channel(Role::Manager, 9, 0));
    denied(desk.leave(seal(&()).unwrap()).await);
    let part = proto::Checkpoint { job: job_bytes(JobId(1)), ..Default::default() };
    denied(desk.store_checkpoint(futures_util::stream::iter([part])).await);
    denied(
        desk.promise_checkpoint(proto::PromiseRequest {
            job: job_bytes(JobId(1)),
            epoch: 9,
            voters: None,
        })
        .await,
    );
    denied(desk.counts(proto::CountsRequest::default()).await);
    let mut jobs = center.jobs(Role::Manager, 9, 0);
    let own = center.local.managers[0].node.to_string();
    denied(jobs.drain(proto::DrainRequest { node: own }).await);

    let place = &center.local.workers[0];
    let expected = Expected { role: Role::Worker, node: Some(place.node) };
    let address = worker.member().address();
    let files = center.files(Role::Manager, 9);
    let mut stranger = WorkerControlClient::new(center.channel_to(files, address, expected));
    until("the worker knows the group", || worker.member().hellos().len() == 1).await;
    let refused = loop {
        let refused = stranger.drain(seal(&()).unwrap()).await.unwrap_err();
        // It may not have asked anybody yet.
        if refused.code() != Code::Unavailable {
            break refused;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    let own = center.own_files(0);
    let mut member = WorkerControlClient::new(center.channel_to(own, address, expected));
    member.drain(seal(&()).unwrap()).await.unwrap();
    until("the worker has drained", || !worker.figures().accepting).await;
    client.fleet().await.unwrap();
}
