//! The bytes of what nodes say to each other. Programs of different versions talk, and postcard
//! knows variants and fields by their place alone: a reorder would be read as something else. Such
//! a change fails here; `golden.txt` gets new lines, never other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use control::codec::{Message, Renewals, encode};
use control::message::{
    AttemptPhase, Dispatch, EndReport, FrameBatch, FrameBatchAck, HeldAttempt, Placement,
    RenewRequest, Renewal, ReportAck, ReservationId, RowBlock, Steer, Steering, StopMode, Task,
    WorkerInventory, WorkerRefusal, WorkerReport, WorkerRequest, WorkerResponse,
};
use fence::{
    Act, Attempt, BootId, Epoch, FenceRefusal, FencedCommand, GroupId, JobId, NodeId, Refusal,
    ShardKey, Step, WorkflowNo,
};
use ledger_state::{AttemptStatus, BlobRef, Counters, Payload};
use stats::wire::StreamKey;

use crate::messages::every::Every;

const JOB: JobId = JobId(300);
const NODE: NodeId = NodeId(7);
const BOOT: BootId = BootId(6);
const ATTEMPT: Attempt = Attempt(2);
const WORKFLOW: WorkflowNo = WorkflowNo(4);
const SHARD: ShardKey = ShardKey { job: JOB, workflow: WORKFLOW, shard: 3 };
const EPOCH: Epoch = Epoch { group: GroupId { cluster: 9, generation: 1 }, number: 5 };
const HOLD: ReservationId = ReservationId { job: JOB, epoch: EPOCH, number: 8 };
const STEP: Step = Step { attempt: ATTEMPT, act: Act::Stop };
const ORDER: FencedCommand =
    FencedCommand { receiver: BOOT, shard: SHARD, epoch: EPOCH, step: STEP };
const STREAM: StreamKey = StreamKey { workflow: 4, shard: 3, attempt: 2, id: 1 };
const BLOB: BlobRef = BlobRef { hash: [0xab; 32], bytes: 500 };
const SECOND: Duration = Duration::from_secs(1);

fn dispatch(placement: Placement, task: Task, context: Payload) -> WorkerRequest {
    WorkerRequest::Dispatch(Box::new(Dispatch {
        order: ORDER,
        placement,
        task,
        shards: 12,
        bundle: BLOB,
        context,
        context_version: 11,
        elapsed: SECOND,
        units_before: 13,
        units_end: Some(14),
        rows: vec![RowBlock { set: 1, first: 2, end: 3 }],
        run_at_most: SECOND,
        time_left: Some(SECOND),
        lease: SECOND,
    }))
}

fn asks() -> Vec<WorkerRequest> {
    let (job, epoch, receiver, shard, attempt) = (JOB, EPOCH, BOOT, SHARD, ATTEMPT);
    let steering = |steer| Steering { number: 15, steers: vec![steer] };
    let steer = |steer| WorkerRequest::Steer { job, epoch, receiver, steering: steering(steer) };
    let stop = |how| WorkerRequest::Stop { order: ORDER, how, reason: "r".to_owned() };
    let attempts = vec![(SHARD, ATTEMPT)];
    vec![
        WorkerRequest::Reserve { hold: HOLD, receiver, cores: 2, within: SECOND },
        WorkerRequest::Release { hold: HOLD, receiver },
        dispatch(Placement::Own(HOLD), Task::Load, Payload::Inline(vec![1, 2])),
        dispatch(Placement::Shared, Task::Setup { of: None }, Payload::Blob(BLOB)),
        dispatch(Placement::Shared, Task::Teardown { of: Some(WORKFLOW) }, Payload::Blob(BLOB)),
        WorkerRequest::Start {
            job,
            epoch,
            receiver,
            attempts,
            after: SECOND,
            elapsed: 2 * SECOND,
            clock: 3 * SECOND,
            steering: steering(Steer::Pause),
        },
        stop(StopMode::Graceful),
        stop(StopMode::Now),
        steer(Steer::Pause),
        steer(Steer::Resume),
        steer(Steer::Vus { workflow: WORKFLOW, vus: 16 }),
        steer(Steer::Rate { workflow: WORKFLOW, per_second: 2.5, from: SECOND }),
        WorkerRequest::Rows {
            shard,
            attempt,
            epoch,
            receiver,
            rows: RowBlock { set: 1, first: 2, end: 3 },
        },
        WorkerRequest::Units { shard, attempt, epoch, receiver, end: 18 },
        WorkerRequest::Forget { shard, attempt },
        WorkerRequest::Install { job, epoch, receiver },
        WorkerRequest::Inspect { job: None },
        WorkerRequest::Inspect { job: Some(JOB) },
    ]
}

fn report(status: AttemptStatus) -> EndReport {
    let counters = Counters {
        issued: 1,
        completed: 2,
        failed: 3,
        iterations: 4,
        interrupted: 11,
        dropped: 5,
        checks_passed: 6,
        checks_failed: 7,
        bytes_sent: 8,
        bytes_received: 9,
        begun: 10,
        sent: 12,
    };
    EndReport {
        shard: SHARD,
        attempt: ATTEMPT,
        worker: NODE,
        boot: BOOT,
        status,
        error: Some("e".to_owned()),
        counters,
        provided: BTreeMap::from([("k".to_owned(), vec![1])]),
        frames: 17,
        totals: vec![3, 4],
        log: "l".to_owned(),
        certain: true,
        sent_until: Some(SECOND),
    }
}

fn answers() -> Vec<WorkerResponse> {
    let fence = |refusal| WorkerResponse::Refused(WorkerRefusal::Fence(refusal));
    let (held, offered) = (EPOCH, EPOCH);
    let phase = |phase| HeldAttempt {
        shard: SHARD,
        attempt: ATTEMPT,
        epoch: EPOCH,
        phase,
        elapsed: SECOND,
        ran: Some(SECOND),
    };
    let phases = [
        AttemptPhase::Preparing,
        AttemptPhase::Ready,
        AttemptPhase::Running,
        AttemptPhase::Stopping,
        AttemptPhase::Ended,
    ];
    let attempts = phases.map(phase).into();
    let holdings = WorkerInventory {
        boot: BOOT,
        since: BOOT,
        cores: 4,
        cores_free: 2,
        draining: true,
        attempts,
    };
    vec![
        WorkerResponse::Done,
        WorkerResponse::Stopped { report: None },
        WorkerResponse::Stopped { report: Some(Box::new(report(AttemptStatus::Stopped))) },
        WorkerResponse::Holding(Box::new(holdings)),
        fence(FenceRefusal::OtherLife { own: BOOT, since: BOOT, named: BOOT }),
        fence(FenceRefusal::OtherCluster { own: 9, offered }),
        fence(FenceRefusal::Epoch(Refusal::Stale { held, offered })),
        fence(FenceRefusal::Epoch(Refusal::Over { held, offered })),
        fence(FenceRefusal::Epoch(Refusal::Foreign { held, offered })),
        fence(FenceRefusal::Epoch(Refusal::Full { keys: 18 })),
        fence(FenceRefusal::Step(Refusal::Stale { held: STEP, offered: STEP })),
        WorkerResponse::Refused(WorkerRefusal::NoCores { asked: 1, free: 2, total: 3 }),
        WorkerResponse::Refused(WorkerRefusal::UnknownReservation),
        WorkerResponse::Refused(WorkerRefusal::UnknownAttempt),
        WorkerResponse::Refused(WorkerRefusal::OldContext { seen: 19 }),
        WorkerResponse::Refused(WorkerRefusal::Draining),
        WorkerResponse::Refused(WorkerRefusal::DiskFull),
        WorkerResponse::Refused(WorkerRefusal::TooMany { what: "w".to_owned(), limit: 20 }),
        WorkerResponse::Refused(WorkerRefusal::CannotRun { why: "y".to_owned() }),
    ]
}

fn tells() -> Vec<WorkerReport> {
    let (shard, attempt, worker, boot) = (SHARD, ATTEMPT, NODE, BOOT);
    vec![
        WorkerReport::Ready { shard, attempt },
        WorkerReport::RowsWanted { shard, attempt, set: 1, at_least: 21 },
        WorkerReport::Abort { shard, attempt, reason: "r".to_owned() },
        WorkerReport::Ended(Box::new(report(AttemptStatus::Completed))),
        WorkerReport::Ended(Box::new(report(AttemptStatus::Failed))),
        WorkerReport::Ended(Box::new(report(AttemptStatus::Interrupted))),
        WorkerReport::MoreTime { job: JOB, worker, boot, progress: 22 },
        WorkerReport::Draining { worker, boot },
    ]
}

fn line<M: Message>(text: &mut String, kind: &str, message: &M) {
    let bytes = encode(message).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{} {hex}", kind.replace(' ', "")).unwrap();
}

/// A line for each, and one at least for every kind.
fn lines<M: Message + Every + 'static>(text: &mut String, messages: &[M]) {
    let shown: BTreeSet<&str> = messages.iter().map(Every::kind).collect();
    let known: BTreeSet<&str> = M::each().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(shown, known, "every kind has a line in golden.txt");
    messages.iter().for_each(|message| line(text, message.kind(), message));
}

#[test]
fn bytes_on_the_wire_keep_their_meaning() {
    let mut text = String::new();
    lines(&mut text, &asks());
    lines(&mut text, &answers());
    lines(&mut text, &tells());
    let owner = Some(NODE);
    lines(
        &mut text,
        &[
            ReportAck::Taken,
            ReportAck::NotOwner { owner },
            ReportAck::UnknownJob,
            ReportAck::Settled,
        ],
    );
    let taken = FrameBatchAck::Taken {
        resume: vec![(STREAM, Ok(23)), (STREAM, Err("e".to_owned()))],
        acks: vec![(STREAM, 24, 25)],
        refused: vec![(STREAM, "r".to_owned())],
    };
    lines(&mut text, &[taken, FrameBatchAck::NotOwner { owner }, FrameBatchAck::UnknownJob]);
    let (worker, boot) = (NODE, BOOT);
    let frames =
        FrameBatch { job: JOB, worker, boot, open: vec![STREAM], frames: vec![vec![5, 6]] };
    line(&mut text, "FrameBatch", &frames);
    let attempts = vec![(SHARD, ATTEMPT)];
    line(
        &mut text,
        "RenewRequest",
        &RenewRequest { worker, boot, attempts, steered: vec![(JOB, 20)] },
    );
    let refused = Renewal::Refused { why: "y".to_owned() };
    let steering = Some(Box::new(Steering { number: 15, steers: vec![Steer::Resume] }));
    let granted = Renewal::Granted { units_end: Some(19), steering };
    let renewals: Renewals = vec![(SHARD, ATTEMPT, granted), (SHARD, ATTEMPT, refused)];
    line(&mut text, "Renewals", &renewals);
    line(&mut text, "()", &());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/messages/golden.txt"), &text)
            .unwrap();
        return;
    }
    let golden = include_str!("golden.txt");
    for (number, (expected, found)) in golden.lines().zip(text.lines()).enumerate() {
        assert_eq!(found, expected, "golden.txt line {}", number + 1);
    }
    assert_eq!(text, golden, "the lists differ in length; found:\n{text}");
}
