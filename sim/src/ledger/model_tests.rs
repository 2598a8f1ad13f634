//! The model of a job against short histories, legal and not.

use fence::{Attempt, BootId, Epoch, GroupId, JobId, NodeId, ShardKey, WorkflowNo};
use ledger_state::{
    BlobRef, Command, CreateJob, Grace, IdempotencyKey, LapseProof, Outcome, Refusal, Reply,
    SessionId, Submission,
};

use super::{JobModel, Operation, Seen, Write};
use crate::linear::{Call, Verdict, check};

const JOB: JobId = JobId(1);

fn place(number: u64) -> Epoch {
    Epoch { group: GroupId::default(), number }
}

fn create() -> Command {
    Command::CreateJob(Box::new(CreateJob {
        tenant: "t".to_owned(),
        key: IdempotencyKey { client: "c".to_owned(), sequence: 1, nonce: [0; 16] },
        fingerprint: [0; 32],
        name: String::new(),
        plan: BlobRef { hash: [0; 32], bytes: 0 },
        age_ms: 0,
        rehearsal: false,
    }))
}

fn accepted(number: u64, duplicate: bool) -> Reply {
    Reply::Submitted(Submission::Accepted { job: JOB, duplicate, created: place(number) })
}

fn claim(seen: Option<u64>) -> Command {
    let claimant = SessionId { node: NodeId(1), boot: BootId(1) };
    Command::ClaimJob { job: JOB, claimant, seen: seen.map(place) }
}

fn start(epoch: u64) -> Command {
    Command::StartAttempt {
        shard: ShardKey { job: JOB, workflow: WorkflowNo(0), shard: 0 },
        epoch: place(epoch),
        attempt: Attempt(1),
        worker: NodeId(9),
        boot: BootId(1),
        after: LapseProof::First,
        terms: ledger_state::AttemptTerms::default(),
    }
}

fn finish(epoch: u64) -> Command {
    let (outcome, detail) = (Outcome::Completed, String::new());
    Command::FinishJob { job: JOB, epoch: place(epoch), outcome, detail }
}

fn cancel() -> Command {
    let (reason, requestor) = (String::new(), String::new());
    let grace = Some(Grace { stop_ms: 1_000, teardown_ms: 1_000, hooks: None });
    Command::CancelJob { job: JOB, reason, requestor, nonce: [1; 16], grace }
}

/// Calls one after the other; `None` is an answer that never came.
fn verdict(calls: Vec<(Command, Option<Reply>)>) -> Verdict {
    verdict_with(calls, None)
}

fn verdict_with(calls: Vec<(Command, Option<Reply>)>, last_read: Option<Seen>) -> Verdict {
    let mut stamp = 0;
    let mut history = Vec::new();
    for (command, reply) in calls {
        stamp += 2;
        let answered = reply.is_some().then_some(stamp);
        history.push(Call {
            operation: Operation::Write(Box::new(Write { command, reply })),
            called: stamp - 1,
            answered,
        });
    }
    if let Some(seen) = last_read {
        let operation = Operation::Read { seen: Some(Box::new(seen)) };
        history.push(Call { operation, called: stamp + 1, answered: Some(stamp + 2) });
    }
    check(&JobModel { retries: 3 }, &history, 100_000)
}

fn illegal(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Illegal { .. })
}

#[test]
fn a_plain_life_is_legal() {
    let life = vec![
        (create(), Some(accepted(1, false))),
        (create(), Some(accepted(1, true))),
        (claim(None), Some(Reply::Claimed { epoch: place(2) })),
        (start(2), Some(Reply::Done { epoch: place(3) })),
        (finish(2), Some(Reply::Finished { outcome: Outcome::Completed, epoch: place(4) })),
        (cancel(), Some(Reply::Ended { outcome: Outcome::Completed, epoch: place(4) })),
    ];
    assert_eq!(verdict(life), Verdict::Legal);
}

/// P2: a job is created once.
#[test]
fn a_second_creation_is_illegal() {
    let calls = vec![(create(), Some(accepted(1, false))), (create(), Some(accepted(2, false)))];
    assert!(illegal(verdict(calls)));
}

/// P4: two owners under the same knowledge.
#[test]
fn two_claims_that_saw_the_same_are_illegal() {
    let calls = vec![
        (create(), Some(accepted(1, false))),
        (claim(None), Some(Reply::Claimed { epoch: place(2) })),
        (claim(None), Some(Reply::Claimed { epoch: place(3) })),
    ];
    assert!(illegal(verdict(calls)));
}

/// P4: an epoch that goes back.
#[test]
fn places_rise() {
    let calls = vec![
        (create(), Some(accepted(5, false))),
        (claim(None), Some(Reply::Claimed { epoch: place(4) })),
    ];
    assert!(illegal(verdict(calls)));
}

/// R5: a cancel that was acknowledged first makes the outcome CANCELLED.
#[test]
fn a_cancel_before_the_end_wins() {
    let outcome = |outcome| {
        vec![
            (create(), Some(accepted(1, false))),
            (claim(None), Some(Reply::Claimed { epoch: place(2) })),
            (cancel(), Some(Reply::Done { epoch: place(3) })),
            (finish(2), Some(Reply::Finished { outcome, epoch: place(4) })),
        ]
    };
    assert_eq!(verdict(outcome(Outcome::Cancelled)), Verdict::Legal);
    assert!(illegal(verdict(outcome(Outcome::Completed))));
}

/// An unknown claim explains a stale epoch later; without it nothing does.
#[test]
fn an_unknown_claim_may_have_happened() {
    let refused = Reply::Refused(Refusal::StaleEpoch { held: place(7), offered: place(2) });
    let calls = |unknown: bool| {
        let mut calls = vec![
            (create(), Some(accepted(1, false))),
            (claim(None), Some(Reply::Claimed { epoch: place(2) })),
        ];
        if unknown {
            calls.push((claim(Some(2)), None));
        }
        calls.push((start(2), Some(refused.clone())));
        calls
    };
    assert_eq!(verdict(calls(true)), Verdict::Legal);
    assert!(illegal(verdict(calls(false))));
}

/// A read that misses an acknowledged write is illegal.
#[test]
fn a_lost_write_is_illegal() {
    let calls = vec![
        (create(), Some(accepted(1, false))),
        (claim(None), Some(Reply::Claimed { epoch: place(2) })),
    ];
    let seen = Seen { created: 1, granted: Some(2), ..Seen::default() };
    assert_eq!(verdict_with(calls.clone(), Some(seen)), Verdict::Legal);
    let lost = Seen { created: 1, ..Seen::default() };
    assert!(illegal(verdict_with(calls, Some(lost))));
}

fn rows(epoch: u64, count: u64) -> Command {
    let shard = ShardKey { job: JOB, workflow: WorkflowNo(0), shard: 0 };
    Command::GrantRows { shard, epoch: place(epoch), attempt: Attempt(1), set: 0, count, of: 10 }
}

/// R5a: a row is given out once; one whose answer never came is gone as well.
#[test]
fn rows_that_overlap_are_illegal() {
    let given = |epoch, first, end| Some(Reply::Rows { epoch: place(epoch), first, end });
    let calls = |second| {
        vec![
            (create(), Some(accepted(1, false))),
            (claim(None), Some(Reply::Claimed { epoch: place(2) })),
            (start(2), Some(Reply::Done { epoch: place(3) })),
            (rows(2, 4), given(4, 0, 4)),
            (rows(2, 4), None),
            (rows(2, 4), second),
        ]
    };
    assert_eq!(verdict(calls(given(6, 8, 10))), Verdict::Legal);
    assert_eq!(verdict(calls(given(6, 4, 8))), Verdict::Legal);
    assert!(illegal(verdict(calls(given(6, 3, 7)))));
    assert!(illegal(verdict(calls(given(6, 5, 9)))));
}

/// A workflow is divided once, and load begins in what was divided.
#[test]
fn a_second_division_is_illegal() {
    let divide = |shards| Command::Provision {
        job: JOB,
        epoch: place(2),
        shards: vec![(WorkflowNo(0), shards)],
    };
    let begin = Command::BeginLoad { job: JOB, epoch: place(2), workflows: vec![WorkflowNo(0)] };
    let done = |epoch| Some(Reply::Done { epoch: place(epoch) });
    let calls = |last: (Command, Option<Reply>)| {
        vec![
            (create(), Some(accepted(1, false))),
            (claim(None), Some(Reply::Claimed { epoch: place(2) })),
            (divide(2), done(3)),
            last,
        ]
    };
    assert_eq!(verdict(calls((begin.clone(), done(4)))), Verdict::Legal);
    assert_eq!(
        verdict(calls((divide(2), Some(Reply::Already { epoch: place(3) })))),
        Verdict::Legal
    );
    assert!(illegal(verdict(calls((divide(3), done(4))))));
    let not_divided = Reply::Refused(Refusal::NotProvisioned { workflow: WorkflowNo(0) });
    assert!(illegal(verdict(calls((begin, Some(not_divided))))));
}
