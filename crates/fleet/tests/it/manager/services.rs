//! Who may call what, and what a manager does with bytes that it cannot read.

use bytes::Bytes;
use control::codec::CONTRACT;
use control::message::{FrameBatch, RenewRequest, WorkerReport};
use fence::{BootId, JobId};
use fleet::wire::proto::manager_peers_client::ManagerPeersClient;
use fleet::wire::proto::worker_reports_client::WorkerReportsClient;
use fleet::wire::proto::{self, Envelope};
use fleet::wire::{REQUEST_BYTES_MAX, job_bytes, seal};
use ledger::wire::refusal_name;
use tonic::{Code, Status};
use trust::Role;

use crate::manager::harness::{Datacenter, node};

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// ARCH-151: every service is for those that it is for. A certificate of another role is refused at
/// each of its calls.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_for_its_roles_only() {
    let center = Datacenter::alone().await;
    let job = || job_bytes(JobId(1));
    let denied = Code::PermissionDenied;

    let mut jobs = center.jobs(Role::Worker, 1, 0);
    assert_eq!(code(jobs.missing(proto::MissingRequest::default()).await), denied);
    let nothing = futures_util::stream::iter(Vec::<proto::Chunk>::new());
    assert_eq!(code(jobs.put(nothing).await), denied);
    assert_eq!(code(jobs.submit(proto::SubmitRequest::default()).await), denied);
    assert_eq!(code(jobs.cancel(proto::CancelRequest::default()).await), denied);
    assert_eq!(code(jobs.status(proto::StatusRequest { job: job() }).await), denied);
    assert_eq!(code(jobs.list(proto::ListRequest::default()).await), denied);
    assert_eq!(code(jobs.watch(proto::WatchRequest::default()).await.map(|_| ())), denied);
    assert_eq!(code(jobs.steer(proto::SteerRequest::default()).await), denied);
    assert_eq!(code(jobs.result(proto::JobRequest { job: job() }).await.map(|_| ())), denied);
    assert_eq!(code(jobs.logs(proto::JobRequest { job: job() }).await), denied);
    assert_eq!(code(jobs.drain(proto::DrainRequest::default()).await), denied);
    assert_eq!(code(jobs.fleet(proto::FleetRequest {}).await), denied);
    assert_eq!(code(jobs.managers(proto::ManagersRequest {}).await), denied);
    assert_eq!(code(jobs.change_managers(proto::ChangeManagersRequest::default()).await), denied);

    let mut office = WorkerReportsClient::new(center.channel(Role::Client, 2, 0));
    let sealed = || Envelope { sealed: Bytes::new() };
    assert_eq!(code(office.report(sealed()).await), denied);
    assert_eq!(code(office.push_frames(sealed()).await), denied);
    assert_eq!(code(office.renew(sealed()).await), denied);
    assert_eq!(code(office.get_blob(proto::BlobRef::default()).await.map(|_| ())), denied);

    for role in [Role::Client, Role::Worker] {
        let mut desk = ManagerPeersClient::new(center.channel(role, 3, 0));
        let parts = futures_util::stream::iter([proto::Checkpoint::default()]);
        assert_eq!(code(desk.store_checkpoint(parts).await), denied);
        let promised = desk.promise_checkpoint(proto::PromiseRequest::default()).await;
        assert_eq!(code(promised.map(|_| ())), denied);
        assert_eq!(code(desk.settled(proto::SettledRequest::default()).await), denied);
        assert_eq!(code(desk.leave(seal(&()).unwrap()).await), denied);
        assert_eq!(code(desk.counts(proto::CountsRequest::default()).await), denied);
    }
}

/// CORE-105: what a later worker says, noise, and what is too large have a name each; and nobody
/// speaks for another.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_manager_cannot_read_is_refused_by_name() {
    let center = Datacenter::alone().await;
    let mut office = WorkerReportsClient::new(center.channel(Role::Worker, 1, 0));
    let (worker, boot) = (node(1), BootId(1));
    let good = seal(&WorkerReport::Draining { worker, boot }).unwrap().sealed.to_vec();
    let later = [&[CONTRACT + 1], &good[1..]].concat();
    let cases: [(&str, Vec<u8>, Code); 4] = [
        ("future_version", later, Code::FailedPrecondition),
        ("malformed", vec![CONTRACT, 200, 200], Code::InvalidArgument),
        ("malformed", Vec::new(), Code::InvalidArgument),
        ("malformed", good[..good.len() - 1].to_vec(), Code::InvalidArgument),
    ];
    for (name, bytes, expected) in cases {
        let sealed = || Envelope { sealed: bytes.clone().into() };
        let answers = [
            office.report(sealed()).await.unwrap_err(),
            office.push_frames(sealed()).await.unwrap_err(),
            office.renew(sealed()).await.unwrap_err(),
        ];
        for status in answers {
            assert_eq!(refusal_name(&status), Some(name), "{bytes:?}: {status:?}");
            assert_eq!(status.code(), expected);
        }
    }
    let frames = FrameBatch { job: JobId(1), worker: node(9), boot, open: vec![], frames: vec![] };
    let others = [
        office.report(seal(&WorkerReport::Draining { worker: node(9), boot }).unwrap()).await,
        office.push_frames(seal(&frames).unwrap()).await,
        office
            .renew(
                seal(&RenewRequest { worker: node(9), boot, attempts: vec![], steered: vec![] })
                    .unwrap(),
            )
            .await,
    ];
    for answer in others {
        assert_eq!(code(answer), Code::PermissionDenied, "a worker speaks for itself");
    }
    assert_eq!(code(office.report(Envelope { sealed: good.into() }).await), Code::Ok);

    let mut jobs = center.jobs(Role::Client, 2, 0);
    let blob = proto::BlobRef { hash: vec![1; 32].into(), bytes: 1 };
    let huge = proto::MissingRequest { blobs: vec![blob.clone(); REQUEST_BYTES_MAX / 16] };
    assert_eq!(code(jobs.missing(huge).await), Code::OutOfRange);
    let many = proto::MissingRequest { blobs: vec![blob; 1_001] };
    let status = jobs.missing(many).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("1001"), "{status:?}");
}
