//! What outlives a crash of the worker.

use std::time::Duration;

use control::message::WorkerResponse;
use ledger_state::AttemptStatus;

use crate::worker::harness::{Fleet, plan, until};

/// R17a: a report that nobody has acknowledged comes again after a restart, until it is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_survives_a_crash() {
    let mut fleet = Fleet::start().await;
    fleet.launch(&plan("vus: 1, iterations: 5"), |_| ()).await;
    let first = fleet.reports(1).await.remove(0);
    until("it is stored", || fleet.files_in("outbox") == 1).await;
    drop(fleet.worker.take());
    fleet.desk.book.lock().unwrap().tells.clear();
    fleet.restart().await;
    let again = fleet.reports(1).await.remove(0);
    assert_eq!(again, first);
    fleet.forget(&again).await;
    until("it is removed", || fleet.files_in("outbox") + fleet.files_in("issued") == 0).await;
}

/// R17: an attempt whose process dies comes back as interrupted, with what it had issued.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_what_was_issued() {
    let mut fleet = Fleet::start().await;
    fleet.launch(&plan("vus: 2, duration: 60s"), |_| ()).await;
    until("load", || fleet.target.counts().total > 50).await;
    let before = fleet.boot();
    drop(fleet.worker.take());
    fleet.restart().await;
    let report = fleet.reports(1).await.remove(0);
    assert_eq!((report.status, report.boot), (AttemptStatus::Interrupted, before));
    let seen = fleet.target.counts().total;
    assert!(report.counters.issued >= 50, "{} issued, {seen} seen", report.counters.issued);
    // The old life's commands mean nothing in the new one.
    let shard = report.shard;
    let order = fence::FencedCommand {
        receiver: before,
        ..fleet.dispatch(fleet.bundle(&plan("vus: 1, iterations: 1")), (0, 1), 1).order
    };
    let ask = control::message::WorkerRequest::Stop {
        order: fence::FencedCommand { shard, ..order },
        how: control::message::StopMode::Now,
        reason: String::new(),
    };
    assert!(matches!(fleet.ask(&ask).await, WorkerResponse::Refused(_)));
}

/// A graceful end tells the owner, so that the shard goes on elsewhere without waiting for the
/// lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_says_that_its_attempts_were_interrupted() {
    let mut fleet = Fleet::start().await;
    fleet.launch(&plan("vus: 1, duration: 60s"), |_| ()).await;
    until("load", || fleet.target.counts().total > 0).await;
    let worker = fleet.worker.take().unwrap();
    worker.shutdown(Duration::from_secs(4)).await;
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Interrupted);
    assert_eq!(report.error.as_deref(), Some("its worker was shut down"));
    assert_eq!(report.counters.issued, fleet.target.counts().total);
}
