//! The bytes of what nodes say to each other. Programs of different versions talk, and postcard knows variants and
//! fields by their place alone: a reorder would be read as something else. Such a change fails here; `golden.txt` gets
//! new lines, never other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use control::codec::{Message, Renewals, encode};
use control::message::{
    Answer, Ask, Dispatch, EndReport, Frames, FramesAnswer, Halt, Held, HeldPhase, Hold, Holdings,
    Refused, Renew, Renewal, RowBlock, Seat, Steer, Steering, Task, Tell, Told,
};
use fence::{
    Act, Attempt, BootId, Epoch, GroupId, JobId, NodeId, Order, OrderRefusal, Refusal, ShardKey,
    Step, WorkflowNo,
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
const HOLD: Hold = Hold { job: JOB, epoch: EPOCH, number: 8 };
const STEP: Step = Step { attempt: ATTEMPT, act: Act::Stop };
const ORDER: Order = Order { receiver: BOOT, shard: SHARD, epoch: EPOCH, step: STEP };
const STREAM: StreamKey = StreamKey { workflow: 4, shard: 3, attempt: 2, id: 1 };
const BLOB: BlobRef = BlobRef { hash: [0xab; 32], bytes: 500 };
const SECOND: Duration = Duration::from_secs(1);

fn dispatch(seat: Seat, task: Task, context: Payload) -> Ask {
    Ask::Dispatch(Box::new(Dispatch {
        order: ORDER,
        seat,
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

fn asks() -> Vec<Ask> {
    let (job, epoch, receiver, shard, attempt) = (JOB, EPOCH, BOOT, SHARD, ATTEMPT);
    let steering = |steer| Steering { number: 15, steers: vec![steer] };
    let steer = |steer| Ask::Steer { job, epoch, receiver, steering: steering(steer) };
    let stop = |how| Ask::Stop { order: ORDER, how, reason: "r".to_owned() };
    let attempts = vec![(SHARD, ATTEMPT)];
    vec![
        Ask::Reserve { hold: HOLD, receiver, cores: 2, within: SECOND },
        Ask::Release { hold: HOLD, receiver },
        dispatch(Seat::Own(HOLD), Task::Load, Payload::Inline(vec![1, 2])),
        dispatch(Seat::Shared, Task::Setup { of: None }, Payload::Blob(BLOB)),
        dispatch(Seat::Shared, Task::Teardown { of: Some(WORKFLOW) }, Payload::Blob(BLOB)),
        Ask::Start {
            job,
            epoch,
            receiver,
            attempts,
            after: SECOND,
            elapsed: 2 * SECOND,
            clock: 3 * SECOND,
            steering: steering(Steer::Pause),
        },
        stop(Halt::Graceful),
        stop(Halt::Now),
        steer(Steer::Pause),
        steer(Steer::Resume),
        steer(Steer::Vus { workflow: WORKFLOW, vus: 16 }),
        steer(Steer::Rate { workflow: WORKFLOW, per_second: 2.5, from: SECOND }),
        Ask::Rows { shard, attempt, epoch, receiver, rows: RowBlock { set: 1, first: 2, end: 3 } },
        Ask::Units { shard, attempt, epoch, receiver, end: 18 },
        Ask::Forget { shard, attempt },
        Ask::Install { job, epoch, receiver },
        Ask::Inspect { job: None },
        Ask::Inspect { job: Some(JOB) },
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

fn answers() -> Vec<Answer> {
    let fence = |refusal| Answer::Refused(Refused::Fence(refusal));
    let (held, offered) = (EPOCH, EPOCH);
    let phase = |phase| Held {
        shard: SHARD,
        attempt: ATTEMPT,
        epoch: EPOCH,
        phase,
        elapsed: SECOND,
        ran: Some(SECOND),
    };
    let phases = [
        HeldPhase::Preparing,
        HeldPhase::Ready,
        HeldPhase::Running,
        HeldPhase::Stopping,
        HeldPhase::Ended,
    ];
    let attempts = phases.map(phase).into();
    let holdings =
        Holdings { boot: BOOT, since: BOOT, cores: 4, cores_free: 2, draining: true, attempts };
    vec![
        Answer::Done,
        Answer::Stopped { report: None },
        Answer::Stopped { report: Some(Box::new(report(AttemptStatus::Stopped))) },
        Answer::Holding(Box::new(holdings)),
        fence(OrderRefusal::OtherLife { own: BOOT, since: BOOT, named: BOOT }),
        fence(OrderRefusal::OtherCluster { own: 9, offered }),
        fence(OrderRefusal::Epoch(Refusal::Stale { held, offered })),
        fence(OrderRefusal::Epoch(Refusal::Over { held, offered })),
        fence(OrderRefusal::Epoch(Refusal::Foreign { held, offered })),
        fence(OrderRefusal::Epoch(Refusal::Full { keys: 18 })),
        fence(OrderRefusal::Step(Refusal::Stale { held: STEP, offered: STEP })),
        Answer::Refused(Refused::NoCores { asked: 1, free: 2, total: 3 }),
        Answer::Refused(Refused::UnknownHold),
        Answer::Refused(Refused::UnknownAttempt),
        Answer::Refused(Refused::OldContext { seen: 19 }),
        Answer::Refused(Refused::Draining),
        Answer::Refused(Refused::DiskFull),
        Answer::Refused(Refused::TooMany { what: "w".to_owned(), limit: 20 }),
        Answer::Refused(Refused::CannotRun { why: "y".to_owned() }),
    ]
}

fn tells() -> Vec<Tell> {
    let (shard, attempt, worker, boot) = (SHARD, ATTEMPT, NODE, BOOT);
    vec![
        Tell::Ready { shard, attempt },
        Tell::RowsWanted { shard, attempt, set: 1, at_least: 21 },
        Tell::Abort { shard, attempt, reason: "r".to_owned() },
        Tell::Ended(Box::new(report(AttemptStatus::Completed))),
        Tell::Ended(Box::new(report(AttemptStatus::Failed))),
        Tell::Ended(Box::new(report(AttemptStatus::Interrupted))),
        Tell::MoreTime { job: JOB, worker, boot, progress: 22 },
        Tell::Draining { worker, boot },
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
    lines(&mut text, &[Told::Taken, Told::NotOwner { owner }, Told::UnknownJob, Told::Settled]);
    let taken = FramesAnswer::Taken {
        resume: vec![(STREAM, Ok(23)), (STREAM, Err("e".to_owned()))],
        acks: vec![(STREAM, 24, 25)],
        refused: vec![(STREAM, "r".to_owned())],
    };
    lines(&mut text, &[taken, FramesAnswer::NotOwner { owner }, FramesAnswer::UnknownJob]);
    let (worker, boot) = (NODE, BOOT);
    let frames = Frames { job: JOB, worker, boot, open: vec![STREAM], frames: vec![vec![5, 6]] };
    line(&mut text, "Frames", &frames);
    let attempts = vec![(SHARD, ATTEMPT)];
    line(&mut text, "Renew", &Renew { worker, boot, attempts, steered: vec![(JOB, 20)] });
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
