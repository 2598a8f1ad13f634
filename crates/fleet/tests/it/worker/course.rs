//! What happens to an attempt on its way: rows, control, late starts, owners that are away.

use std::time::Duration;

use control::message::{
    RowBlock, Steer, Steering, StopMode, WorkerReport, WorkerRequest, WorkerResponse,
};
use fence::{Attempt, WorkflowNo};
use ledger_state::AttemptStatus;
use stats::{DropCause, totals};

use crate::worker::harness::{Fleet, JOB, plan, shard_key, until};

impl Fleet {
    async fn steer(&self, number: u64, steer: Steer) -> WorkerResponse {
        let (epoch, receiver) = (self.epoch(), self.boot());
        let steers = vec![steer];
        let steering = Steering { number, steers };
        self.ask(&WorkerRequest::Steer { job: JOB, epoch, receiver, steering }).await
    }

    fn told(&self, which: impl Fn(&WorkerReport) -> bool) -> bool {
        self.desk.book.lock().unwrap().tells.iter().any(which)
    }

    /// Everything that the streams have brought, when all frames of this report are there.
    async fn finished(&self, frames: u64) -> stats::merge::Finished {
        until("all frames", || {
            let book = self.desk.book.lock().unwrap();
            let merge = book.merge.as_ref();
            merge.is_some_and(|merge| merge.resume_points().any(|(_, next)| next == frames + 1))
        })
        .await;
        let merge = self.desk.book.lock().unwrap().merge.take().unwrap();
        merge.finish(Duration::from_secs(30))
    }
}

/// Rows of a set that must not repeat are asked for, and each is used once; when there are no more,
/// the load ends.
#[tokio::test(flavor = "multi_thread")]
async fn rows_come_from_the_owner() {
    let fleet = Fleet::start().await;
    let rows: String = (0..200).map(|row| format!("{row}\n")).collect();
    std::fs::write(fleet.world.temp.path().join("rows.csv"), format!("n\n{rows}")).unwrap();
    let text = "target: TARGET\n\
                data: { rows: { file: rows.csv, order: unique-per-iteration, when_exhausted: stop } }\n\
                workflows: [ { name: w, load: { vus: 2, duration: 30s }, steps: [ { get: '/bytes/${data.rows.n}' } ] } ]\n";
    let shard = fleet.launch(text, |_| ()).await;
    until("rows are wanted", || fleet.told(|tell| matches!(tell, WorkerReport::RowsWanted { .. })))
        .await;
    assert_eq!(fleet.target.counts().total, 0, "none is used before it was granted");
    let (epoch, receiver, attempt) = (fleet.epoch(), fleet.boot(), Attempt(1));
    for rows in
        [RowBlock { set: 0, first: 100, end: 130 }, RowBlock { set: 0, first: 200, end: 200 }]
    {
        let ask = WorkerRequest::Rows { shard, attempt, epoch, receiver, rows };
        assert_eq!(fleet.ask(&ask).await, WorkerResponse::Done);
    }
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Completed, "{:?}", report.error);
    assert_eq!((report.counters.completed, fleet.target.counts().total), (30, 30));
}

/// R5a: a later attempt joins the schedule; what was missed is counted as lost, and the end does
/// not move.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_joins_the_schedule() {
    let fleet = Fleet::start().await;
    let bundle = fleet.bundle(&plan("rate: 100/s, duration: 3s, max_vus: 50"));
    assert_eq!(fleet.reserve(1, 1).await, WorkerResponse::Done);
    let mut dispatch = fleet.dispatch(bundle, (0, 1), 2);
    dispatch.elapsed = Duration::from_millis(1800);
    dispatch.units_before = 120;
    assert_eq!(fleet.give(dispatch).await, WorkerResponse::Done);
    fleet.ready(shard_key(0, 0), 2).await;
    let (epoch, receiver) = (fleet.epoch(), fleet.boot());
    let start = WorkerRequest::Start {
        job: JOB,
        epoch,
        receiver,
        attempts: vec![(shard_key(0, 0), Attempt(2))],
        after: Duration::from_millis(50),
        elapsed: Duration::from_secs(2),
        clock: Duration::from_secs(5),
        steering: Steering::default(),
    };
    assert_eq!(fleet.ask(&start).await, WorkerResponse::Done);
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.status, AttemptStatus::Completed);
    // 200 were due before. 120 of them were begun by attempts before; the others are the owner's to
    // count.
    assert_eq!((report.counters.iterations, report.counters.dropped), (100, 0));
    assert_eq!(report.counters.begun, 180);
    let finished = fleet.finished(report.frames).await;
    let total = totals::iterations(&finished.totals, &finished.layout, None);
    assert_eq!((total.iterations, total.dropped[DropCause::WorkerLost as usize]), (100, 0));
}

/// R17: while no owner takes them, frames wait in the worker, and nothing is missing afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn statistics_wait_for_an_owner() {
    let fleet = Fleet::start().await;
    fleet.desk.book.lock().unwrap().durable = false;
    let shard = fleet.launch(&plan("vus: 2, duration: 2s"), |_| ()).await;
    until("some frames", || fleet.desk.book.lock().unwrap().posts > 3).await;
    // The owner is gone with all that it had applied, and the next one takes its time.
    let schema = {
        let mut book = fleet.desk.book.lock().unwrap();
        book.merge = None;
        book.schema.take()
    };
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.shard, shard);
    fleet.desk.book.lock().unwrap().schema = schema;
    let finished = fleet.finished(report.frames).await;
    assert!(finished.exact, "{:?}", finished.notes);
    let completed = totals::grand_total(&finished.totals, &finished.layout).completed;
    assert_eq!(completed, report.counters.completed);
    assert_eq!(report.counters.issued, fleet.target.counts().total);
}

/// Live control: a paused attempt sends nothing, a stop that is graceful lets it end well.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_follows_live_control() {
    let fleet = Fleet::start().await;
    let shard = fleet.launch(&plan("vus: 2, duration: 60s, pacing: 5ms"), |_| ()).await;
    until("load", || fleet.target.counts().total > 10).await;
    assert_eq!(fleet.steer(1, Steer::Pause).await, WorkerResponse::Done);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let paused = fleet.target.counts().total;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(fleet.target.counts().total, paused, "it stands still");
    assert_eq!(fleet.steer(2, Steer::Resume).await, WorkerResponse::Done);
    until("it goes on", || fleet.target.counts().total > paused + 10).await;
    let more = Steer::Vus { workflow: WorkflowNo(0), vus: 7 };
    assert_eq!(fleet.steer(3, more).await, WorkerResponse::Done);
    until("more connections", || fleet.target.counts().connections_open >= 7).await;
    fleet.stop(shard, 1, StopMode::Graceful).await;
    let report = fleet.reports(1).await.remove(0);
    assert_eq!(report.counters.completed, fleet.target.counts().total);
    assert_eq!(report.counters.issued, report.counters.completed);
}

/// A script's words are in the report, and its wish to abort reaches the owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_logs_and_aborts() {
    let fleet = Fleet::start().await;
    let bundle = fleet.script(
        "import http from 'k6/http'; import exec from 'k6/execution';
         export const options = { scenarios: { s: { executor: 'constant-vus', vus: 1, duration: '30s' } } };
         export default () => {
           http.get('TARGET/'); console.log('here I am');
           if (exec.scenario.iterationInTest >= 2) exec.test.abort('enough');
         }",
    );
    let shard = fleet.launch_bundle(bundle, |_| ()).await;
    until("the wish", || {
        fleet.told(
            |tell| matches!(tell, WorkerReport::Abort { reason, .. } if reason.contains("enough")),
        )
    })
    .await;
    fleet.stop(shard, 1, StopMode::Now).await;
    let report = fleet.reports(1).await.remove(0);
    assert!(report.log.contains("here I am"), "{}", report.log);
    assert_eq!(report.counters.completed, fleet.target.counts().total);
}
