//! The bytes of what is stored and replicated. postcard knows variants and fields by their place,
//! so a reorder would read old logs as something else without an error. Such a change fails here;
//! `golden.txt` gets new lines, never other ones.

use std::fmt::Write;
use std::time::Duration;

use fence::{Attempt, BootId, Epoch, Hlc, JobId, NodeId, ShardKey, WorkflowNo};
use ledger_state::Steer;
use ledger_state::{
    AttemptStatus, AttemptTerms, Busy, Command, Counters, Event, EventKind, Field, Grace,
    KeyProblem, LapseProof, Outcome, Payload, Problem, Proposal, Refusal, Rejection, Reply,
    ReportedBy, RequestId, Resource, StopCause, Submission,
};
use serde::Serialize;

use crate::world::{GROUP, blob, key, session, submission};

const JOB: JobId = JobId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
const SHARD: ShardKey = ShardKey { job: JOB, workflow: WorkflowNo(2), shard: 3 };

fn epoch(index: u64) -> Epoch {
    Epoch::at(GROUP, index, 1)
}

fn commands() -> Vec<Command> {
    let text = String::from;
    let (epoch, attempt, boot) = (epoch(5), Attempt(2), BootId(6));
    let start = |after| Command::StartAttempt {
        shard: SHARD,
        epoch,
        attempt,
        worker: NodeId(7),
        boot,
        after,
        terms: AttemptTerms { lease_ms: 6_000, units_before: 30, units_end: Some(50) },
    };
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
    let end = |status, result: Option<ledger_state::BlobRef>| {
        let under = result.map(|_| epoch);
        Command::EndAttempt {
            shard: SHARD,
            under,
            attempt,
            status,
            counters,
            result,
            sent_until_ms: None,
            word: ReportedBy::Whole,
        }
    };
    let in_word = |word| Command::EndAttempt {
        shard: SHARD,
        under: None,
        attempt,
        status: AttemptStatus::Interrupted,
        counters,
        result: None,
        sent_until_ms: None,
        word,
    };
    let finish = |outcome| Command::FinishJob { job: JOB, epoch, outcome, detail: text("d") };
    let stop = |cause| Command::StopJob { job: JOB, epoch, cause, reason: text("r") };
    let steer = |steer| Command::SteerJob { job: JOB, epoch, steer };
    let context = |context| Command::CommitContext { job: JOB, epoch, layer: 1, context };
    vec![
        Command::OpenSession,
        Command::CreateJob(Box::new(submission(300))),
        Command::ClaimJob { job: JOB, claimant: session(NodeId(1), 2), seen: None },
        Command::ClaimJob { job: JOB, claimant: session(NodeId(1), 2), seen: Some(epoch) },
        Command::ReleaseJob { job: JOB, epoch },
        start(LapseProof::First),
        start(LapseProof::Stopped),
        start(LapseProof::HigherBoot(BootId(9))),
        start(LapseProof::LeaseLapsed),
        Command::RevokeAttempt {
            shard: SHARD,
            epoch,
            attempt,
            reason: text("r"),
            heard_ms: Some(12),
            suspected: true,
        },
        end(AttemptStatus::Completed, Some(blob(2))),
        end(AttemptStatus::Failed, None),
        end(AttemptStatus::Stopped, None),
        end(AttemptStatus::Interrupted, None),
        in_word(ReportedBy::Partial),
        in_word(ReportedBy::Owner),
        context(Payload::Inline(vec![1, 2, 3])),
        context(Payload::Blob(blob(3))),
        Command::CancelJob {
            job: JOB,
            reason: text("r"),
            requestor: text("q"),
            nonce: [7; 16],
            grace: Some(Grace { stop_ms: 1, teardown_ms: 2, hooks: Some(WorkflowNo(3)) }),
        },
        finish(Outcome::Completed),
        finish(Outcome::Partial),
        finish(Outcome::Failed),
        finish(Outcome::Cancelled),
        finish(Outcome::Timeout),
        Command::Advance { seen_ms: 1_000, elapsed_ms: 250 },
        Command::Provision { job: JOB, epoch, shards: vec![(WorkflowNo(1), 300)] },
        Command::BeginLoad { job: JOB, epoch, workflows: vec![WorkflowNo(1)] },
        Command::GrantRows { shard: SHARD, epoch, attempt, set: 1, count: 2, of: 3 },
        stop(StopCause::Threshold(4)),
        stop(StopCause::Aborted),
        stop(StopCause::Timeout),
        steer(Steer::Pause),
        steer(Steer::Resume),
        steer(Steer::Vus { workflow: WorkflowNo(1), vus: 2 }),
        steer(Steer::Rate {
            workflow: WorkflowNo(1),
            per_second: 2.5,
            from: Duration::from_secs(3),
        }),
        Command::ExtendJob { job: JOB, epoch, total_ms: 15_000 },
        Command::RecordResult { job: JOB, epoch, result: blob(4) },
        Command::MakeRoom { jobs: 300 },
    ]
}

fn refusals() -> Vec<Refusal> {
    let (held, offered, attempt) = (epoch(5), epoch(4), Attempt(2));
    vec![
        Refusal::UnknownSession,
        Refusal::StaleBoot { current: BootId(3) },
        Refusal::SessionClosed { boot: BootId(3) },
        Refusal::SessionsFull { limit: 9 },
        Refusal::RequestForgotten { settled: 8 },
        Refusal::WindowFull { settled: 8, window: 4 },
        Refusal::UnknownJob,
        Refusal::StaleEpoch { held, offered },
        Refusal::UnknownEpoch { held: Some(held), offered },
        Refusal::Released { last: held },
        Refusal::ClaimLost { held: None },
        Refusal::WrongAttempt { expected: attempt },
        Refusal::NoSuchAttempt { last: attempt },
        Refusal::StillLive { attempt },
        Refusal::NoProof { attempt },
        Refusal::Settled { attempt, status: AttemptStatus::Failed },
        Refusal::RetriesExhausted { limit: 3 },
        Refusal::Cancelled { epoch: held },
        Refusal::Ended { outcome: Outcome::Partial, epoch: held },
        Refusal::NotCancelled,
        Refusal::WrongLayer { expected: 1 },
        Refusal::Full(Resource::Jobs { limit: 1 }),
        Refusal::Full(Resource::Attempts { limit: 1 }),
        Refusal::Full(Resource::Bytes { limit: 1 }),
        Refusal::Full(Resource::Shards { limit: 1 }),
        Refusal::Full(Resource::Layers { limit: 1 }),
        Refusal::Invalid(Problem::TooLong { field: Field::Tenant, bytes: 2, limit: 1 }),
        Refusal::Invalid(Problem::Empty { field: Field::Result }),
        Refusal::Invalid(Problem::Key(KeyProblem::Nonce)),
        Refusal::Invalid(Problem::AttemptZero),
        Refusal::AlreadyApplied { applied: 4 },
        Refusal::OutOfEpochs,
        Refusal::OtherDivision { workflow: WorkflowNo(1), shards: 2 },
        Refusal::NotProvisioned { workflow: WorkflowNo(1) },
        Refusal::NotLive { attempt },
        Refusal::Full(Resource::Sets { limit: 1 }),
        Refusal::Full(Resource::Steers { limit: 1 }),
        Refusal::Full(Resource::Rates { limit: 1 }),
        Refusal::Full(Resource::Addenda { limit: 1 }),
        Refusal::Invalid(Problem::Division { workflow: WorkflowNo(1), shards: 0 }),
        Refusal::Invalid(Problem::Rate),
    ]
}

fn replies() -> Vec<Reply> {
    let (job, created, outcome) = (JOB, epoch(5), Outcome::Timeout);
    let rejected = |rejection| Reply::Submitted(Submission::Rejected(rejection));
    let later = |why| Reply::Submitted(Submission::RetryLater { after_ms: 500, why });
    let mut replies = vec![
        Reply::SessionOpened { epoch: created },
        Reply::Submitted(Submission::Accepted { job, duplicate: true, created }),
        rejected(Rejection::KeyReused { job }),
        rejected(Rejection::InvalidKey(KeyProblem::Parts)),
        rejected(Rejection::TooLate { age_ms: 2, retention_ms: 1 }),
        rejected(Rejection::Invalid(Problem::AttemptZero)),
        rejected(Rejection::IdTaken { job }),
        Reply::Submitted(Submission::Pending { job }),
        later(Busy::Full(Resource::Jobs { limit: 1 })),
        later(Busy::NoLeader),
        later(Busy::Overloaded),
        Reply::Claimed { epoch: created },
        Reply::Done { epoch: created },
        Reply::Already { epoch: created },
        Reply::Superseded { epoch: created, by: Attempt(2) },
        Reply::Finished { outcome, epoch: created },
        Reply::Ended { outcome, epoch: created },
        Reply::Advanced { now_ms: 7, retired: 2 },
    ];
    replies.extend(refusals().into_iter().map(Reply::Refused));
    replies.push(Reply::Rows { epoch: created, first: 3, end: 300 });
    replies
}

fn events() -> Vec<Event> {
    let (workflow, shard, attempt) = (WorkflowNo(2), 3, Attempt(2));
    let status = AttemptStatus::Stopped;
    let kinds = [
        EventKind::Created,
        EventKind::Claimed { owner: session(NodeId(1), 2) },
        EventKind::Released,
        EventKind::AttemptStarted { workflow, shard, attempt, worker: NodeId(7) },
        EventKind::AttemptRevoked { workflow, shard, attempt },
        EventKind::AttemptEnded { workflow, shard, attempt, status, superseded: true },
        EventKind::ContextCommitted { layer: 1 },
        EventKind::CancelRequested,
        EventKind::Finished { outcome: Outcome::Failed },
        EventKind::Retired,
        EventKind::Provisioned { workflows: 1, shards: 300 },
        EventKind::LoadBegun { workflows: 1 },
        EventKind::StopRequested { cause: StopCause::Timeout },
        EventKind::Steered,
        EventKind::Extended { total_ms: 15_000 },
        EventKind::ResultRecorded,
        EventKind::CancelForced,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::AttemptAmended { workflow, shard, attempt },
    ];
    let at = Hlc { wall_ms: 9, logical: 8, node: NodeId(7) };
    kinds.map(|kind| Event { epoch: epoch(5), at, kind }).into()
}

fn line<T: Serialize + std::fmt::Debug>(text: &mut String, value: &T) {
    let name: String =
        format!("{value:?}").chars().take_while(|c| c.is_alphanumeric() || *c == '(').collect();
    let bytes = postcard::to_allocvec(value).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{} {hex}", name.trim_end_matches('(')).unwrap();
}

/// LEDG-31: a stored byte means what it meant when it was stored.
#[test]
fn stored_bytes_keep_their_meaning() {
    let mut text = String::new();
    let request = RequestId { session: session(NodeId(1), 2), seq: 300 };
    let at = Hlc { wall_ms: 9, logical: 8, node: NodeId(7) };
    let command = Command::OpenSession;
    line(&mut text, &Proposal { request, settled: 299, at, command });
    line(&mut text, &key(1));
    commands().iter().for_each(|command| line(&mut text, command));
    replies().iter().for_each(|reply| line(&mut text, reply));
    events().iter().for_each(|event| line(&mut text, event));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden.txt"), &text).unwrap();
        return;
    }
    let golden = include_str!("golden.txt");
    for (number, (expected, found)) in golden.lines().zip(text.lines()).enumerate() {
        assert_eq!(found, expected, "golden.txt line {}", number + 1);
    }
    assert_eq!(text, golden, "the lists differ in length; found:\n{text}");
}
