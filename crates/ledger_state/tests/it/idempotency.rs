//! Idempotent submission, as far as the state machine alone can show it.

use ledger_state::{
    Busy, Command, CreateJob, IdempotencyKey, KeyProblem, Limits, Outcome, Problem, Rejection,
    Reply, Resource, Submission,
};

use crate::world::{ALICE, BOB, World, key, session, submission};

/// IDEM-1, IDEM-8: the answer was lost, the retry names the same job.
#[test]
fn a_retry_after_a_lost_answer_finds_its_job() {
    let mut world = World::new();
    let Submission::Accepted { job, duplicate: false, created } = world.submit(submission(1))
    else {
        panic!("the first submission is accepted");
    };
    let again = world.submit(submission(1));
    assert_eq!(again, Submission::Accepted { job, duplicate: true, created });
    assert_eq!(world.state.jobs().len(), 1);
}

/// IDEM-32: concurrent duplicates, even in one log entry: one is new, all name the same job.
#[test]
fn concurrent_duplicates_make_one_job() {
    let mut world = World::new();
    let create = Command::CreateJob(Box::new(submission(1)));
    let batch: Vec<_> = [ALICE, BOB, ALICE, BOB]
        .map(|node| world.proposal(session(node, 1), create.clone()))
        .into();
    let replies = world.send_all(&batch);
    let fresh = replies.iter().filter(|reply| {
        matches!(reply, Reply::Submitted(Submission::Accepted { duplicate: false, .. }))
    });
    assert_eq!(fresh.count(), 1);
    assert_eq!(world.state.jobs().len(), 1);
    let id = key(1).job_id("acme");
    for reply in replies {
        assert!(matches!(reply, Reply::Submitted(Submission::Accepted { job, .. }) if job == id));
    }
}

/// IDEM-3: job and key are one record, so no crash comes between them.
#[test]
fn a_restart_between_submission_and_retry_changes_nothing() {
    let mut world = World::new();
    let job = world.job(1);
    world.restart();
    assert!(matches!(
        world.submit(submission(1)),
        Submission::Accepted { job: again, duplicate: true, .. } if again == job
    ));
}

/// IDEM-4: whichever node it comes through, the id is that of a job that exists.
#[test]
fn two_nodes_with_one_key_make_one_job() {
    let mut world = World::new();
    let job = world.job(1);
    let reply = world.run(BOB, Command::CreateJob(Box::new(submission(1))));
    let Reply::Submitted(Submission::Accepted { job: told, duplicate: true, .. }) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(told, job);
    assert!(world.state.job(told).is_some());
}

/// "pending" is an answer of its own, and neither acceptance nor rejection.
#[test]
fn pending_is_not_a_rejection() {
    let pending = Submission::Pending { job: key(1).job_id("acme") };
    assert!(!matches!(pending, Submission::Rejected(_) | Submission::Accepted { .. }));
    // A node that said so asks again with the same key, and gets the outcome.
    let mut world = World::new();
    let job = world.job(1);
    assert!(matches!(pending, Submission::Pending { job: told } if told == job));
    assert!(matches!(world.submit(submission(1)), Submission::Accepted { duplicate: true, .. }));
}

/// A full ledger asks to come back, drops nothing, and does not hold it against the key.
#[test]
fn a_full_ledger_refuses_for_now_and_forgets_the_refusal() {
    let limits = Limits { jobs: 2, ..Limits::default() };
    let ttl = limits.committed_ttl_ms;
    let mut world = World::with(limits);
    let (first, epoch) = world.owned(1);
    let second = world.job(2);
    let full = Busy::Full(Resource::Jobs { limit: 2 });
    assert!(
        matches!(world.submit(submission(3)), Submission::RetryLater { why, .. } if why == full)
    );
    // A duplicate needs no room.
    assert!(matches!(world.submit(submission(2)), Submission::Accepted { duplicate: true, .. }));
    assert!(world.state.job(first).is_some() && world.state.job(second).is_some());

    world.finish(first, epoch, Outcome::Completed);
    let Submission::RetryLater { after_ms, .. } = world.submit(submission(3)) else {
        panic!("the key of the ended job is still kept");
    };
    assert!((1_000..=60_000).contains(&after_ms));
    world.wait(ttl + 1);
    assert!(matches!(world.submit(submission(3)), Submission::Accepted { duplicate: false, .. }));
    assert!(world.state.job(second).is_some(), "an active job is never dropped");
}

/// Bytes are bounded as well as jobs.
#[test]
fn a_ledger_full_of_bytes_refuses_for_now() {
    let mut world = World::with(Limits { bytes: 100, ..Limits::default() });
    world.job(1);
    let accepted =
        (2..10).take_while(|n| matches!(world.submit(submission(*n)), Submission::Accepted { .. }));
    assert_eq!(accepted.count(), 2, "27 bytes each");
    let full = Busy::Full(Resource::Bytes { limit: 100 });
    assert!(
        matches!(world.submit(submission(9)), Submission::RetryLater { why, .. } if why == full)
    );
}

/// The same key with other content is refused, and says so.
#[test]
fn a_key_with_other_content_is_refused() {
    let mut world = World::new();
    let job = world.job(1);
    let other = CreateJob { fingerprint: [2; 32], ..submission(1) };
    assert_eq!(world.submit(other), Submission::Rejected(Rejection::KeyReused { job }));
    assert!(matches!(world.submit(submission(1)), Submission::Accepted { duplicate: true, .. }));
}

/// Another tenant's key of the same text is another key.
#[test]
fn tenants_do_not_see_each_others_keys() {
    let mut world = World::new();
    let job = world.job(1);
    let theirs = CreateJob { tenant: "umbrella".to_owned(), fingerprint: [2; 32], ..submission(1) };
    assert!(matches!(
        world.submit(theirs),
        Submission::Accepted { job: other, duplicate: false, .. } if other != job
    ));
}

/// IDEM-9: a client without a key gets one per request: two submissions, two jobs.
#[test]
fn submissions_without_a_key_are_two_jobs() {
    let mut world = World::new();
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let mut proposal = world.proposal(session(ALICE, 1), Command::OpenSession);
        let key = IdempotencyKey::of_request(proposal.request);
        key.validate().unwrap();
        proposal.command = Command::CreateJob(Box::new(CreateJob { key, ..submission(0) }));
        for _ in 0..2 {
            // The node repeats its proposal: still one job.
            let reply = world.send(proposal.clone());
            let Reply::Submitted(Submission::Accepted { job, .. }) = reply else {
                panic!("{reply:?}");
            };
            jobs.push(job);
        }
    }
    jobs.dedup();
    assert_eq!(jobs.len(), 2);
    assert_eq!(world.state.jobs().len(), 2);
}

/// IDEM-13: a malformed key is refused by the authority too, and leaves nothing behind.
#[test]
fn the_ledger_refuses_malformed_keys() {
    let mut world = World::new();
    let cases = [
        (String::new(), KeyProblem::NoClient),
        ("x".repeat(200), KeyProblem::ClientTooLong { bytes: 200 }),
        ("a\u{7}".to_owned(), KeyProblem::ControlCharacter),
    ];
    for (client, problem) in cases {
        let create = CreateJob { key: IdempotencyKey { client, ..key(1) }, ..submission(1) };
        let answer = world.submit(create);
        assert_eq!(answer, Submission::Rejected(Rejection::InvalidKey(problem)));
    }
    let nameless = CreateJob { tenant: String::new(), ..submission(1) };
    assert!(matches!(
        world.submit(nameless),
        Submission::Rejected(Rejection::Invalid(Problem::Empty { .. }))
    ));
    assert_eq!(world.state.jobs().len(), 0);
}
