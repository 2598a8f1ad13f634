//! No contact is no licence (R4).

use std::sync::atomic::Ordering;
use std::time::Duration;

use control::message::{StopMode, WorkerResponse};
use ledger_state::AttemptStatus;

use crate::worker::harness::{Fleet, plan, until};

async fn quiet(fleet: &Fleet) -> u64 {
    let before = fleet.target.counts().total;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = fleet.target.counts().total;
    assert_eq!(before, after, "nothing more is sent");
    after
}

/// R4: when no manager renews the lease, the attempt stops by itself, and says so when somebody
/// listens again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_renewed_ends_the_sending() {
    let fleet = Fleet::start().await;
    let lease = Duration::from_millis(1200);
    fleet
        .launch(&plan("vus: 2, duration: 60s, pacing: 10ms"), |dispatch| dispatch.lease = lease)
        .await;
    until("load", || fleet.target.counts().total > 20).await;
    let begun = fleet.target.counts().total;
    tokio::time::sleep(lease * 2).await;
    assert!(fleet.target.counts().total > begun + 20, "renewed, it goes on");

    fleet.desk.silent.store(true, Ordering::Relaxed);
    tokio::time::sleep(lease + Duration::from_millis(300)).await;
    let seen = quiet(&fleet).await;
    assert!(fleet.desk.reports().is_empty());

    fleet.desk.silent.store(false, Ordering::Relaxed);
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Interrupted, "{:?}", report.error);
    let c = report.counters;
    assert!(c.completed <= seen && seen <= c.issued, "{} <= {seen} <= {}", c.completed, c.issued);
}

/// A refused renewal stops it at once: the job is over, or the attempt was replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_renewal_ends_the_attempt() {
    let fleet = Fleet::start().await;
    fleet
        .launch(&plan("vus: 2, duration: 60s"), |dispatch| dispatch.lease = Duration::from_secs(2))
        .await;
    until("load", || fleet.target.counts().total > 0).await;
    fleet.desk.refuses.store(true, Ordering::Relaxed);
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Stopped);
    assert!(report.error.unwrap().contains("revoked"));
    quiet(&fleet).await;
}

/// A stop by force is acknowledged when the thread has seen it: from the answer on, not one request
/// more.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_acknowledged_when_nothing_more_is_sent() {
    let fleet = Fleet::start().await;
    let shard = fleet.launch(&plan("vus: 8, duration: 60s"), |_| ()).await;
    until("load", || fleet.target.counts().total > 20).await;
    let answer = fleet.stop(shard, 1, StopMode::Now).await;
    let WorkerResponse::Stopped { .. } = answer else { panic!("{answer:?}") };
    // What was written before the answer may still be on its way to the target.
    tokio::time::sleep(Duration::from_millis(100)).await;
    quiet(&fleet).await;
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Stopped);
    let again = fleet.stop(shard, 1, StopMode::Now).await;
    assert!(matches!(again, WorkerResponse::Stopped { report: Some(_) }), "a repeat: {again:?}");
}
