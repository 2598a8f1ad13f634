//! From the dispatch to the report that is forgotten.

use std::time::Duration;

use control::message::{Placement, Task, WorkerRefusal, WorkerRequest, WorkerResponse};
use control::owner::context::{self, Handed};
use fence::{Attempt, Epoch, WorkflowNo};
use fleet::worker::End;
use ledger_state::{AttemptStatus, Payload};
use stats::totals;

use crate::worker::harness::{Fleet, GROUP, plan, shard_key, until};

/// EXEC: two shards of one workflow start together, and their statistics and reports add up to what
/// the target saw.
#[tokio::test(flavor = "multi_thread")]
async fn two_shards_run_and_their_counts_are_exact() {
    let fleet = Fleet::start().await;
    let bundle = fleet.bundle(&plan("vus: 4, iterations: 40"));
    assert_eq!(fleet.reserve(1, 2).await, WorkerResponse::Done);
    assert_eq!(fleet.worker().figures().cores_free, 0, "both are held");
    for shard in 0..2 {
        assert_eq!(fleet.give(fleet.dispatch(bundle, (shard, 2), 1)).await, WorkerResponse::Done);
    }
    let shards = [shard_key(0, 0), shard_key(0, 1)];
    for shard in shards {
        fleet.ready(shard, 1).await;
    }
    assert_eq!(fleet.target.counts().total, 0, "nothing is sent before the start");
    let attempts = shards.map(|shard| (shard, Attempt(1))).to_vec();
    assert_eq!(fleet.begin(attempts).await, WorkerResponse::Done);

    let reports = fleet.reports(2).await;
    for report in &reports {
        assert_eq!((report.status, &report.error), (AttemptStatus::Completed, &None));
        let c = report.counters;
        assert_eq!((c.issued, c.completed, c.failed, c.iterations), (20, 20, 0, 20));
        assert!(report.frames > 0 && c.bytes_received > 0);
    }
    assert_eq!(fleet.target.counts().total, 40);

    // The stream alone has everything too.
    until("all frames", || {
        let book = fleet.desk.book.lock().unwrap();
        let applied = |report: &control::message::EndReport| {
            let merge = book.merge.as_ref().unwrap();
            merge
                .resume_points()
                .any(|(key, next)| (key.shard, next) == (report.shard.shard, report.frames + 1))
        };
        reports.iter().all(applied)
    })
    .await;
    let merge = fleet.desk.book.lock().unwrap().merge.take().unwrap();
    let finished = merge.finish(Duration::from_secs(10));
    assert!(finished.exact, "{:?}", finished.notes);
    assert_eq!(totals::grand_total(&finished.totals, &finished.layout).completed, 40);

    // Each is told while it is written.
    until("both reports on the disk", || {
        (fleet.files_in("outbox"), fleet.files_in("issued")) == (2, 2)
    })
    .await;
    for report in &reports {
        fleet.forget(report).await;
    }
    until("nothing is left on the disk", || {
        fleet.files_in("outbox") + fleet.files_in("issued") == 0
    })
    .await;
    assert_eq!(fleet.worker().figures().cores_free, 2);
}

/// What is submitted may have passwords in it: only the worker's user reads it.
#[tokio::test(flavor = "multi_thread")]
async fn folders_of_a_worker_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let fleet = Fleet::start().await;
    for name in ["blobs", "outbox", "issued", "scratch"] {
        let folder = fleet.world.data(2).join(name);
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

/// R17: without any frame of it, the tail in the report is the whole stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_alone_has_all_statistics() {
    let fleet = Fleet::start().await;
    let bundle = fleet.bundle(&plan("vus: 2, iterations: 30"));
    let schema = fleet.desk.book.lock().unwrap().schema.take().unwrap();
    assert_eq!(fleet.reserve(1, 1).await, WorkerResponse::Done);
    assert_eq!(fleet.give(fleet.dispatch(bundle, (0, 1), 1)).await, WorkerResponse::Done);
    fleet.ready(shard_key(0, 0), 1).await;
    fleet.begin(vec![(shard_key(0, 0), Attempt(1))]).await;
    let report = fleet.reports(1).await.remove(0);
    let frames: Vec<Vec<u8>> = postcard::from_bytes(&report.totals).unwrap();
    let mut merge = stats::merge::Merge::new(schema.clone(), &[], Default::default());
    for frame in &frames {
        let key = stats::wire::Frame::decode(frame, &schema).unwrap().key;
        merge.open(key, Duration::from_secs(1)).unwrap();
        merge.receive(frame, Duration::from_secs(1)).unwrap();
    }
    let finished = merge.finish(Duration::from_secs(10));
    assert!(finished.exact, "{:?}", finished.notes);
    assert_eq!(totals::grand_total(&finished.totals, &finished.layout).completed, 30);
}

/// R5: a disk that takes nothing is no error of the plan. Another worker can run it, so it is said
/// to be interrupted; and when the disk takes something again, so does this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_not_the_plans_fault() {
    let fleet = Fleet::start().await;
    let bundle = fleet.bundle(&plan("vus: 1, iterations: 3"));
    assert_eq!(fleet.reserve(1, 2).await, WorkerResponse::Done);
    for (number, folder) in ["scratch", "issued"].into_iter().enumerate() {
        let folder = fleet.world.data(2).join(folder);
        std::fs::remove_dir(&folder).unwrap();
        std::fs::write(&folder, "in the way").unwrap();
        let shard = u32::try_from(number).unwrap();
        assert_eq!(fleet.give(fleet.dispatch(bundle, (shard, 2), 1)).await, WorkerResponse::Done);
        let report = fleet.reports(number + 1).await.remove(number);
        assert_eq!(report.status, AttemptStatus::Interrupted, "{:?}", report.error);
        assert!(report.error.is_some_and(|error| error.contains("os error")));
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
    }
    assert_eq!(fleet.reserve(2, 1).await, WorkerResponse::Done);
    let mut dispatch = fleet.dispatch(bundle, (0, 1), 2);
    dispatch.placement = Placement::Own(fleet.hold(2));
    assert_eq!(fleet.give(dispatch).await, WorkerResponse::Done);
    fleet.ready(shard_key(0, 0), 2).await;
}

/// EXEC-40: a setup runs once, on its own core; what it leaves is in its report, and the load is
/// handed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_setup_leaves_its_variables() {
    let fleet = Fleet::start().await;
    let text = "target: TARGET\n\
                setup: [ { get: /bytes/7, extract: { size: { header: content-length } } } ]\n\
                workflows: [ { name: w, load: { vus: 1, iterations: 3 }, steps: [ { get: '/status/20${size}' } ] } ]\n";
    let bundle = fleet.bundle(text);
    assert_eq!(fleet.reserve(1, 2).await, WorkerResponse::Done);
    let mut dispatch = fleet.dispatch(bundle, (0, 1), 1);
    dispatch.order.shard.workflow = WorkflowNo(1);
    dispatch.task = Task::Setup { of: None };
    let shard = dispatch.order.shard;
    assert_eq!(fleet.give(dispatch).await, WorkerResponse::Done);
    fleet.ready(shard, 1).await;
    fleet.begin(vec![(shard, Attempt(1))]).await;
    let report = fleet.reports(1).await.remove(0);
    assert_eq!((report.status, report.error), (AttemptStatus::Completed, None));
    assert_eq!(report.provided["size"], b"7");
    assert_eq!((report.counters.issued, fleet.target.counts().total), (1, 1));

    let mut dispatch = fleet.dispatch(bundle, (0, 1), 1);
    let handed = Handed { variables: report.provided, ..Handed::default() };
    dispatch.context = Payload::Inline(context::encode(&handed));
    assert_eq!(fleet.give(dispatch).await, WorkerResponse::Done);
    fleet.ready(shard_key(0, 0), 1).await;
    fleet.begin(vec![(shard_key(0, 0), Attempt(1))]).await;
    let report = fleet.reports(2).await.remove(0);
    assert_eq!((report.status, report.counters.completed), (AttemptStatus::Completed, 3));
    assert_eq!(report.counters.failed, 0, "status 207 is a good one, and `20` alone would be none");
}

/// What cannot be run says why, and is final (R5).
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_loaded_fails_with_its_reason() {
    let fleet = Fleet::start().await;
    let text = "target: TARGET\nworkflows: [ { name: w, load: { vus: 1, iterations: 1 }, \
                steps: [ { get: '/${secret.NOBODY_KNOWS}' } ] } ]\n";
    let bundle = fleet.bundle(text);
    fleet.reserve(1, 1).await;
    assert_eq!(fleet.give(fleet.dispatch(bundle, (0, 1), 1)).await, WorkerResponse::Done);
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Failed);
    assert!(report.error.as_ref().unwrap().contains("NOBODY_KNOWS"), "{:?}", report.error);
    assert_eq!(fleet.worker().figures().cores_free, 2, "its core is free again");
}

/// A blob that no manager has, or that is not what its name says, is never run.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_must_be_what_its_hash_says() {
    let fleet = Fleet::start().await;
    let bundle = fleet.bundle(&plan("vus: 1, iterations: 1"));
    fleet.desk.book.lock().unwrap().blobs.get_mut(&bundle.hash).unwrap()[40] ^= 1;
    fleet.reserve(1, 1).await;
    assert_eq!(fleet.give(fleet.dispatch(bundle, (0, 1), 1)).await, WorkerResponse::Done);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(fleet.files_in("blobs"), 0);
    // Repaired at the manager, it goes on by itself.
    fleet.desk.book.lock().unwrap().blobs.get_mut(&bundle.hash).unwrap()[40] ^= 1;
    fleet.ready(shard_key(0, 0), 1).await;
    assert_eq!(fleet.files_in("blobs"), 1);
}

/// R3: a lower epoch is refused, a higher one takes over, and attempts go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_owner_is_refused() {
    let mut fleet = Fleet::start().await;
    let shard = fleet.launch(&plan("vus: 1, duration: 20s"), |_| ()).await;
    fleet.epoch = 6;
    let (epoch, receiver) = (fleet.epoch(), fleet.boot());
    let job = shard.job;
    let WorkerResponse::Holding(holdings) =
        fleet.ask(&WorkerRequest::Install { job, epoch, receiver }).await
    else {
        panic!("holdings")
    };
    assert_eq!(holdings.attempts.len(), 1);
    fleet.epoch = 5;
    let answer = fleet.reserve(2, 1).await;
    assert!(matches!(answer, WorkerResponse::Refused(WorkerRefusal::Fence(_))), "{answer:?}");
    let foreign = fence::GroupId { cluster: 8, ..GROUP };
    let epoch = Epoch { group: foreign, number: 99 };
    let answer = fleet.ask(&WorkerRequest::Install { job, epoch, receiver }).await;
    assert!(matches!(answer, WorkerResponse::Refused(WorkerRefusal::Fence(_))), "{answer:?}");
}

/// ARCH-100: it finishes what runs, takes no more, and ends when its last report is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_ends() {
    let fleet = Fleet::start().await;
    fleet.launch(&plan("vus: 2, duration: 1s"), |_| ()).await;
    fleet.worker_control().drain(fleet::wire::seal(&()).unwrap()).await.unwrap();
    assert_eq!(fleet.reserve(2, 1).await, WorkerResponse::Refused(WorkerRefusal::Draining));
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Completed);
    assert_eq!(report.counters.completed, fleet.target.counts().total);
    fleet.forget(&report).await;
    let end = tokio::time::timeout(Duration::from_secs(10), fleet.worker().ended()).await;
    assert_eq!(end, Ok(End::Drained));
}
