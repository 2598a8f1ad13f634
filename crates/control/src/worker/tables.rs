//! Limits and settings, row by row.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::{Act, Capacity, JobId};

use super::testing::{BOOT, Rig, at, dispatch, end, epoch, run, settings};
use super::*;
use crate::message::{
    Dispatch, Placement, ReservationId, RowBlock, WorkerRefusal, WorkerRequest, WorkerResponse,
};
use ledger_state::{AttemptStatus, Payload};

fn answer(effects: &[Effect]) -> &WorkerResponse {
    let mut answers = effects.iter().filter_map(|effect| match effect {
        Effect::Respond { answer, .. } => Some(answer),
        _ => None,
    });
    answers.next_back().expect("an answer")
}

fn reserve(number: u32, cores: u32) -> (ReservationId, WorkerRequest) {
    let hold = ReservationId { job: JobId(1), epoch: epoch(5), number };
    (hold, WorkerRequest::Reserve { hold, receiver: BOOT, cores, within: Duration::from_secs(10) })
}

fn bad(change: impl Fn(&mut Dispatch)) -> (WorkerResponse, Rig) {
    let mut rig = Rig::new(2);
    let (hold, request) = reserve(1, 2);
    rig.ask(1, request);
    let mut dispatch = dispatch(run("s0.1"), epoch(5), Placement::Own(hold));
    change(&mut dispatch);
    let effects = rig.ask(1, WorkerRequest::Dispatch(Box::new(dispatch)));
    (answer(&effects).clone(), rig)
}

/// R10: what is too large is refused by name, with the number, and leaves no trace.
#[test]
fn a_dispatch_that_is_too_large_is_refused_by_name_and_leaves_no_trace() {
    type Change = fn(&mut Dispatch);
    let rows: [(Change, &str); 8] = [
        (|d| d.lease = Duration::from_secs(61), "seconds of lease, 60"),
        (|d| d.lease = Duration::ZERO, "a lease of no length"),
        (|d| d.rows = vec![RowBlock { set: 0, first: 0, end: 1 }; 257], "blocks of rows, 256"),
        (|d| d.context = Payload::Inline(vec![0; (1 << 20) + 1]), "bytes of context, 1048576"),
        (|d| d.order.step.act = Act::Stop, "a dispatch says stop of attempt 1"),
        (|d| d.placement = Placement::Shared, "1 cores, 0 of 2"),
        (|d| d.order.epoch = epoch(6), "unknown hold"),
        (|d| d.order.shard.job = JobId(2), "unknown hold"),
    ];
    for (change, expected) in rows {
        let (answer, mut rig) = bad(change);
        let WorkerResponse::Refused(refused) = answer else { panic!("{expected}: {answer:?}") };
        let shown = match refused {
            WorkerRefusal::TooMany { what, limit } => format!("{what}, {limit}"),
            WorkerRefusal::CannotRun { why } => why,
            WorkerRefusal::NoCores { asked, free, total } => {
                format!("{asked} cores, {free} of {total}")
            }
            WorkerRefusal::UnknownReservation => "unknown hold".to_owned(),
            other => panic!("{expected}: {other:?}"),
        };
        assert_eq!(shown, expected);
        assert_eq!(
            rig.worker.fence_counts().0.entered,
            1,
            "{expected}: only the reservation entered"
        );
        let (hold, _) = reserve(1, 2);
        let good = dispatch(run("s0.1"), epoch(5), Placement::Own(hold));
        let effects = rig.ask(1, WorkerRequest::Dispatch(Box::new(good)));
        assert_eq!(
            answer_of(&effects),
            WorkerResponse::Done,
            "{expected}: the same attempt may come again"
        );
    }
}

fn answer_of(effects: &[Effect]) -> WorkerResponse {
    answer(effects).clone()
}

/// R17a: reports that nobody acknowledges fill the outbox, and then no more work is taken; counters
/// never lack room.
#[test]
fn a_full_outbox_takes_no_more_work_and_loses_no_counters() {
    let mut settings = settings(1);
    settings.limits.outbox_bytes = 300_000;
    settings.limits.report_floor = 100_000;
    let mut rig = Rig::with(settings);
    let mut ran = 0;
    for (number, totals) in (1..).zip([150_000, 150_000, 99_000, 1, 1]) {
        let (hold, request) = reserve(number, 1);
        rig.ask(1, request);
        let name = run(&format!("s{number}.1"));
        let effects = rig.ask(
            1,
            WorkerRequest::Dispatch(Box::new(dispatch(name, epoch(5), Placement::Own(hold)))),
        );
        if let WorkerResponse::Refused(refused) = answer(&effects) {
            let what = "bytes of reports that nobody has acknowledged".to_owned();
            assert_eq!(*refused, WorkerRefusal::TooMany { what, limit: 300_000 });
            break;
        }
        ran += 1;
        rig.step(Event::Fetched { run: name, result: Ok(()) });
        let end = EngineEnd { totals: vec![0; totals], ..end(EngineEndKind::Completed) };
        rig.step(Event::Ended { run: name, end });
        let report = rig.worker.outbox().get(name).expect("kept");
        assert_eq!(report.counters.issued, 10);
    }
    assert_eq!(ran, 3);
    assert!(rig.worker.outbox().bytes() <= 300_000);
    assert_eq!(rig.worker.counts().totals_dropped, 1);
    assert_eq!(rig.worker.counts().refused_too_many, 1);
}

/// A result that provides too much is an error of its workflow, with the numbers; one with too
/// large totals loses them.
#[test]
fn a_report_that_is_too_large_is_made_to_fit() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]);
    let provided = BTreeMap::from([("token".to_owned(), vec![0; 200_000])]);
    let end = EngineEnd { provided, totals: vec![0; 5 << 20], ..end(EngineEndKind::Completed) };
    rig.step(Event::Ended { run: run("s0.1"), end });
    let report = rig.worker.outbox().get(run("s0.1")).unwrap();
    assert_eq!(report.status, AttemptStatus::Failed);
    assert!(report.error.as_ref().unwrap().contains("131072 are allowed"), "{:?}", report.error);
    assert!(report.provided.is_empty() && report.totals.is_empty());
    assert_eq!(report.counters.issued, 10);
}

/// Memory of jobs is bounded; what is idle for long makes room, and its late commands are refused.
#[test]
fn jobs_that_are_over_make_room_and_stay_refused() {
    let mut settings = settings(4);
    settings.limits.jobs = Capacity { keys: 2, tombstones: 8 };
    let mut rig = Rig::with(settings);
    let request = |job: u128| {
        let hold = ReservationId { job: JobId(job), epoch: epoch(5), number: 1 };
        WorkerRequest::Reserve { hold, receiver: BOOT, cores: 1, within: Duration::from_secs(1) }
    };
    for job in [1, 2] {
        assert_eq!(answer_of(&rig.ask(1, request(job))), WorkerResponse::Done);
    }
    let full = answer_of(&rig.ask(1, request(3)));
    assert!(matches!(full, WorkerResponse::Refused(WorkerRefusal::Fence(_))), "{full:?}");
    // Both are idle when their holds have run out, and over ten minutes later.
    for second in [100.0, 300.0, 800.0] {
        rig.now = at(second);
        rig.step(Event::Tick);
    }
    rig.now = at(802.0);
    assert_eq!(answer_of(&rig.ask(1, request(3))), WorkerResponse::Done);
    let late = answer_of(&rig.ask(1, request(1)));
    assert!(matches!(late, WorkerResponse::Refused(WorkerRefusal::Fence(_))), "{late:?}");
}

/// Settings that cannot work are refused at the start, by name.
#[test]
fn settings_that_cannot_work_are_refused() {
    let mut none = settings(0);
    assert_eq!(none.check().unwrap_err().what, "cores");
    none.cores = 4096;
    assert_eq!(none.check().unwrap_err().what, "outbox_bytes");
    let mut narrow = settings(1);
    narrow.limits.report_bytes = 1;
    assert_eq!(narrow.check().unwrap_err().what, "report_floor");
    let mut nobody = settings(1);
    nobody.share_max = 0;
    assert!(Worker::recover(nobody, vec![], vec![], at(0.0)).is_err());
}

/// R10: callers that wait for a stop are bounded; the rest hears at once that it was told.
#[test]
fn callers_that_wait_for_a_stop_are_bounded() {
    let mut rig = Rig::new(1);
    rig.running(&["s0.1"]);
    let fence = fence::Fence { epoch: epoch(5), attempt: run("s0.1").attempt };
    let order = fence::FencedCommand::new(BOOT, run("s0.1").shard, fence, Act::Stop);
    let how = crate::message::StopMode::Now;
    let mut answered = 0;
    for _ in 0..20 {
        let request = WorkerRequest::Stop { order, how, reason: "cancelled".into() };
        let effects = rig.ask(1, request);
        answered += effects.iter().filter(|e| matches!(e, Effect::Respond { .. })).count();
    }
    assert_eq!(answered, 12);
    let effects = rig.step(Event::PermitWithdrawn { run: run("s0.1") });
    assert_eq!(effects.len(), 8);
}

/// ARCH-100, ARCH-95: what a heartbeat says.
#[test]
fn the_figures_say_what_is_here() {
    let mut rig = Rig::new(4);
    let figures = rig.worker.figures();
    assert!(figures.accepting);
    assert_eq!((figures.cores, figures.cores_free, figures.shards, figures.runnable), (4, 4, 0, 0));
    rig.running(&["s0.1", "s1.1"]);
    let figures = rig.worker.figures();
    assert_eq!((figures.cores, figures.cores_free, figures.shards, figures.runnable), (4, 2, 2, 2));
}

/// Grants what is asked for, so that the lease runs on.
fn renew(rig: &mut Rig, effects: Vec<Effect>) {
    for effect in effects {
        if let Effect::SendRenewal { number, renew, .. } = effect {
            let granted = |(shard, attempt)| {
                (shard, attempt, Renewal::Granted { units_end: None, steering: None })
            };
            let answers = renew.attempts.into_iter().map(granted).collect();
            rig.step(Event::RenewalAnswered { number, answers });
        }
    }
}

/// R21: what goes forward is that the threads of load answer. How much they send is the plan's
/// affair, one that answers late is slow, one that does not is stuck, and questions of managers are
/// no progress.
#[test]
fn progress_is_that_the_threads_answer() {
    let rows = [
        ("ten times a second, little load", 1.0, 10, 1, 10_000),
        ("ten times a second, much load", 1.0, 10, 1_000_000, 10_000),
        ("once in two seconds, as busy as can be", 2.0, 1, 1_000_000, 10_000),
        ("once in five seconds", 5.0, 1, 1_000_000, 4_000),
        ("never, though requests are counted", 1.0, 0, 1_000, 0),
    ];
    for (what, every, answers, iterations, done) in rows {
        let mut rig = Rig::new(1);
        rig.running(&["s0.1"]);
        let mut progress = Progress { answers: 1, ..Progress::default() };
        rig.now = at(2.0);
        let effects = rig.step(Event::Progress { run: run("s0.1"), progress });
        renew(&mut rig, effects);
        let before = rig.worker.figures().work_done;
        let mut second = 0.0;
        while second < 10.0 {
            second += every;
            progress.answers += answers;
            progress.counters.iterations += iterations;
            rig.now = at(2.0 + second);
            let effects = rig.step(Event::Progress { run: run("s0.1"), progress });
            renew(&mut rig, effects);
            rig.ask(1, WorkerRequest::Inspect { job: None });
        }
        assert_eq!(rig.worker.figures().work_done - before, done, "{what}");
    }
}
