//! Nonsense is refused by name, before it is proposed and again when it is applied.

use fence::Attempt;
use ledger_state::{
    AttemptStatus, Command, CreateJob, Field, LapseProof, Limits, Outcome, Payload, Problem,
    Refusal, Rejection, Reply, Submission, validate,
};

use crate::world::{ALICE, World, blob, end, shard, start, submission};

/// R10, P10: each field that is too long is refused, and the message says which, how long, and how
/// long it may be.
#[test]
fn what_is_too_long_is_refused() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    world.start(job, epoch, 1, LapseProof::First);
    let limits = Limits::default();
    let text = "x".repeat(1_025);
    let mut large = blob(1);
    large.bytes = u64::MAX;
    let create = |create| Command::CreateJob(Box::new(create));
    let shard = shard(job);
    let cancel = |reason: &str, requestor: &str| Command::CancelJob {
        job,
        reason: reason.to_owned(),
        requestor: requestor.to_owned(),
        nonce: [1; 16],
        grace: None,
    };
    let mut result = end(job, 1, AttemptStatus::Completed, 1);
    if let Command::EndAttempt { result, .. } = &mut result {
        *result = Some(large);
    }
    let cases = [
        (Field::Tenant, create(CreateJob { tenant: "x".repeat(129), ..submission(2) })),
        (Field::Name, create(CreateJob { name: "x".repeat(257), ..submission(2) })),
        (Field::Plan, create(CreateJob { plan: large, ..submission(2) })),
        (
            Field::Reason,
            Command::RevokeAttempt {
                shard,
                epoch,
                attempt: Attempt(1),
                reason: text.clone(),
                heard_ms: None,
                suspected: false,
            },
        ),
        (Field::Reason, cancel(&text, "")),
        (Field::Requestor, cancel("", &text)),
        (Field::Detail, Command::FinishJob { job, epoch, outcome: Outcome::Failed, detail: text }),
        (
            Field::Context,
            Command::CommitContext { job, epoch, layer: 0, context: Payload::Blob(large) },
        ),
        (Field::Result, result),
    ];
    let before = world.state.job(job).cloned();
    for (expected, command) in cases {
        let problem = validate(&command, &limits).unwrap_err();
        let Problem::TooLong { field, bytes, limit } = problem else { panic!("{problem:?}") };
        assert_eq!(field, expected);
        let message = problem.to_string();
        assert!(message.contains(&bytes.to_string()) && message.contains(&limit.to_string()));
        match world.run(ALICE, command) {
            Reply::Refused(Refusal::Invalid(told)) => assert_eq!(told, problem),
            Reply::Submitted(Submission::Rejected(Rejection::Invalid(told))) => {
                assert_eq!(told, problem);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.state.job(job).cloned(), before);
    }
    assert_eq!(
        validate(&start(job, epoch, 0, LapseProof::First), &limits),
        Err(Problem::AttemptZero)
    );
    for command in [
        start(job, epoch, 1, LapseProof::First),
        end(job, 1, AttemptStatus::Completed, 1),
        create(submission(1)),
    ] {
        assert_eq!(validate(&command, &limits), Ok(()));
    }
}

/// Cancel, revoke and outcome go through even when the ledger is full of bytes.
#[test]
fn a_full_ledger_can_still_stop_jobs() {
    let mut world = World::with(Limits { bytes: 40, ..Limits::default() });
    let (job, epoch) = world.owned(1);
    world.start(job, epoch, 1, LapseProof::First);
    let reason = "x".repeat(1_000);
    let revoke = Command::RevokeAttempt {
        shard: shard(job),
        epoch,
        attempt: Attempt(1),
        reason,
        heard_ms: None,
        suspected: false,
    };
    assert!(matches!(world.run(ALICE, revoke), Reply::Done { .. }));
    assert!(matches!(world.cancel(job), Reply::Done { .. }));
    assert!(matches!(world.finish(job, epoch, Outcome::Failed), Reply::Finished { .. }));
}
