//! A disk that runs full, and is given room again.

use std::sync::Arc;

use ledger::{NotCommitted, ReadLevel, Written};
use ledger_state::{Busy, CreateJob, Limits, Submission};

use crate::group::harness::*;

/// Segments of 64 KiB on a disk that the test can fill.
fn small_group(disk: &wal::FaultyDisk, limits: Limits) -> Group {
    let mut group = Group::prepare(1, 0, |config| {
        config.state_limits = limits;
        config.limits.batch_bytes = 4 << 10;
        config.limits.proposal_bytes = 4 << 10;
    });
    group.wal = wal::Options::small(64 << 10);
    group.places[0].disk = Arc::new(disk.clone());
    group
}

/// Takes jobs until the disk is almost full; how many were taken.
async fn fill(group: &Group, first: u64) -> u64 {
    for number in first..first + 10_000 {
        match group.node(0).submit(job(number), LONG).await {
            Submission::Accepted { .. } => {}
            Submission::RetryLater { why: Busy::NoSpace, .. } => return number - first,
            other => panic!("job {number}: {other:?}"),
        }
    }
    panic!("the disk never became full");
}

/// A ledger whose disk is full refuses new jobs by name, finishes what has begun, and takes jobs
/// again as soon as there is room: by itself, and after a restart on the full disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_whose_disk_was_full_takes_jobs_again_when_there_is_room() {
    let disk = wal::FaultyDisk::new(1);
    disk.set_capacity(1 << 20);
    let mut group = small_group(&disk, Limits::default());
    group.up(0).await;
    let taken = fill(&group, 1).await;
    assert!(taken > 100, "{taken} jobs on an empty disk");

    // What has begun goes on.
    let node = group.node(0);
    let written = node.propose(claim(node, job_id(1)), LONG).await;
    let _ = claimed(&written);
    assert_eq!(node.status().failed, None);

    disk.set_capacity(2 << 20);
    create(group.node(0), taken + 1).await;
    let more = fill(&group, taken + 2).await;
    assert!(more > 100, "{more} jobs in twice the room");

    // Whoever starts on a full disk serves, and waits for room as well.
    group.kill(0);
    group.up(0).await;
    let node = group.node(0);
    until("the member to lead", async || node.status().leads).await;
    let last = taken + more + 2;
    let refused = node.submit(job(last), LONG).await;
    assert!(matches!(refused, Submission::RetryLater { why: Busy::NoSpace, .. }), "{refused:?}");
    disk.set_capacity(u64::MAX);
    create(node, last).await;
    let jobs = node.read(ReadLevel::Strong, LONG, |state| state.jobs().count() as u64).await;
    assert_eq!(jobs.unwrap().value, last, "none was lost, none came twice");
    let again = node.propose(claim(node, job_id(2)), LONG).await;
    assert!(!matches!(again, Written::NotCommitted(NotCommitted::NoSpace)), "{again:?}");
}

/// Old results do not keep new jobs out: a leader whose disk is nearly full forgets jobs that have
/// ended, though they were to be known for longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_makes_room_by_forgetting_ended_jobs() {
    let disk = wal::FaultyDisk::new(2);
    disk.set_capacity(1 << 20);
    let (committed_ttl_ms, retry_window_ms, kept_ms) = (50, 20, 3_600_000);
    let limits = Limits { committed_ttl_ms, retry_window_ms, kept_ms, ..Limits::default() };
    let mut group = small_group(&disk, limits);
    group.up(0).await;
    let node = group.node(0);
    let mut taken = 0;
    loop {
        // A rehearsal has ended as soon as it is there.
        let ended = CreateJob { rehearsal: true, ..job(taken) };
        match node.submit(ended, LONG).await {
            Submission::Accepted { .. } => taken += 1,
            Submission::RetryLater { why: Busy::NoSpace, .. } => break,
            other => panic!("job {taken}: {other:?}"),
        }
    }
    assert!(taken > 100, "{taken} jobs on an empty disk");
    until("the oldest are forgotten", async || {
        let left = node.read(ReadLevel::Strong, LONG, |state| state.jobs().count() as u64).await;
        // Some in each round of housekeeping.
        left.is_ok_and(|left| left.value + 100 <= taken)
    })
    .await;
}
