//! Requests that arrive twice, late, out of order, or from a life that is over.

use fence::{BootId, Hlc, NodeId};
use ledger_state::{
    Command, Limits, Outcome, Proposal, Refusal, Reply, RequestId, SessionId, Submission,
};

use crate::world::{ALICE, BOB, World, refused, session, submission};

fn create(session: SessionId, seq: u64, settled: u64, sequence: u64) -> Proposal {
    Proposal {
        request: RequestId { session, seq },
        settled,
        at: Hlc::default(),
        command: Command::CreateJob(Box::new(submission(sequence))),
    }
}

/// LEDG-28 last row, R3: a request that was answered gets the same answer, word for word, and runs
/// once.
#[test]
fn a_repeated_request_gets_the_first_answer() {
    let mut world = World::new();
    let job = world.job(1);
    let claim = Command::ClaimJob { job, claimant: session(BOB, 1), seen: None };
    let proposal = world.proposal(session(BOB, 1), claim);
    let first = world.send(proposal.clone());
    assert!(matches!(first, Reply::Claimed { .. }));
    world.restart();
    for _ in 0..3 {
        assert_eq!(world.send(proposal.clone()), first);
    }
    // Also within one entry.
    let finish = Command::FinishJob {
        job,
        epoch: world.state.job(job).unwrap().epoch.unwrap(),
        outcome: Outcome::Completed,
        detail: String::new(),
    };
    let proposal = world.proposal(session(BOB, 1), finish);
    let replies = world.send_all(&[proposal.clone(), proposal]);
    assert_eq!(replies[0], replies[1]);
    assert!(matches!(replies[0], Reply::Finished { .. }));
}

/// R3: requests that overtake each other are each executed once.
#[test]
fn requests_may_overtake_each_other() {
    let mut world = World::new();
    let who = session(ALICE, 1);
    for seq in [3, 1, 2, 3, 1] {
        let reply = world.send(create(who, seq, 0, seq));
        let fresh = Reply::Submitted(Submission::Accepted {
            job: submission(seq).key.job_id("acme"),
            duplicate: false,
            created: world.state.job(submission(seq).key.job_id("acme")).unwrap().created,
        });
        assert_eq!(reply, fresh);
    }
    assert_eq!(world.state.jobs().len(), 3);
}

/// What was reported as received is forgotten; a straggler of it is refused, not executed.
#[test]
fn a_settled_request_is_not_executed_again() {
    let mut world = World::new();
    let who = session(ALICE, 1);
    world.send(create(who, 1, 0, 1));
    world.send(create(who, 3, 2, 3));
    assert_eq!(world.state.session(ALICE).unwrap().answers.len(), 1);
    let settled = 2;
    for seq in [0, 1, 2] {
        let reply = world.send(create(who, seq, 0, 9));
        assert_eq!(reply, refused(Refusal::RequestForgotten { settled }));
    }
    assert_eq!(world.state.jobs().len(), 2);
}

/// R10: a proposer that settles nothing is refused, and told; it goes on when it settles.
#[test]
fn the_window_of_answers_is_bounded() {
    let mut world = World::with(Limits { window: 4, ..Limits::default() });
    let who = session(ALICE, 1);
    for seq in 1..=4 {
        world.send(create(who, seq, 0, seq));
    }
    let full = refused(Refusal::WindowFull { settled: 0, window: 4 });
    assert_eq!(world.send(create(who, 5, 0, 5)), full);
    assert_eq!(world.state.session(ALICE).unwrap().answers.len(), 4);
    // It was not executed, so the same request may be sent again.
    let reply = world.send(create(who, 5, 1, 5));
    assert!(matches!(reply, Reply::Submitted(Submission::Accepted { duplicate: false, .. })));
}

/// R2: a higher start of a node ends the session of the lower one, and nothing of the lower one
/// runs any more.
#[test]
fn a_higher_start_replaces_the_session() {
    let mut world = World::new();
    let first = world.open(ALICE, 1);
    assert_eq!(world.open(ALICE, 1), first, "opening twice is opening once");
    let (old, new) = (session(ALICE, 1), session(ALICE, 2));
    assert_eq!(world.send(create(new, 1, 0, 1)), refused(Refusal::UnknownSession));
    let second = world.open(ALICE, 2);
    assert_ne!(second, first);
    let stale = refused(Refusal::StaleBoot { current: BootId(2) });
    assert_eq!(world.send(create(old, 1, 0, 1)), stale);
    assert_eq!(world.open(ALICE, 1), stale);
    // Requests are counted from 1 again.
    assert!(matches!(world.send(create(new, 1, 0, 1)), Reply::Submitted(_)));
}

/// A retry whose session is not known is refused: it may have run.
#[test]
fn an_unknown_session_runs_nothing() {
    let mut world = World::new();
    let stranger = session(NodeId(99), 1);
    assert_eq!(world.send(create(stranger, 1, 0, 1)), refused(Refusal::UnknownSession));
    assert_eq!(world.state.jobs().len(), 0);
}

/// R10: sessions are bounded. Only a long silent one gives way, and nothing that it had asked for
/// runs again.
#[test]
fn sessions_are_bounded() {
    let limits =
        Limits { sessions: 2, session_records: 4, session_idle_ms: 50_000, ..Limits::default() };
    let mut world = World::with(limits);
    let full = |limit| refused(Refusal::SessionsFull { limit });
    world.send(create(session(BOB, 1), 1, 0, 1));
    assert_eq!(world.open(NodeId(1), 1), full(2));
    world.wait(25_000);
    world.wait(25_000);
    assert!(matches!(world.open(NodeId(1), 1), Reply::SessionOpened { .. }));
    let closed = refused(Refusal::SessionClosed { boot: BootId(1) });
    assert_eq!(world.send(create(session(BOB, 1), 1, 0, 2)), closed);
    assert_eq!(world.open(BOB, 1), closed);
    // Alice was busy, and stays; the newcomer is not idle either.
    assert_eq!(world.open(BOB, 2), full(2));
    world.wait(25_000);
    world.wait(25_000);
    assert!(matches!(world.open(BOB, 2), Reply::SessionOpened { .. }));
    world.wait(25_000);
    world.wait(25_000);
    assert!(matches!(world.open(NodeId(2), 1), Reply::SessionOpened { .. }));
    world.wait(25_000);
    world.wait(25_000);
    assert_eq!(world.open(NodeId(3), 1), full(4), "the memories are bounded too");
}

/// An entry that is handed in again has no effect.
#[test]
fn an_entry_is_applied_once() {
    let mut world = World::new();
    let proposal = create(session(ALICE, 1), 1, 0, 1);
    world.send(proposal);
    let before = world.state.digest();
    for index in [0, world.index - 1, world.index] {
        let replies = world.state.apply(index, &[create(session(ALICE, 1), 2, 0, 2)]);
        assert_eq!(replies, [refused(Refusal::AlreadyApplied { applied: world.index })]);
    }
    assert_eq!(world.state.digest(), before);
}

/// Epochs that cannot be numbered are not granted.
#[test]
fn an_entry_has_only_so_many_places() {
    let mut world = World::new();
    let again = create(session(ALICE, 1), 1, 0, 1);
    let replies = world.state.apply(10, &vec![again.clone(); 65_537]);
    assert!(matches!(replies[65_535], Reply::Submitted(_)));
    assert_eq!(replies[65_536], refused(Refusal::OutOfEpochs));
    assert_eq!(world.state.apply(1 << 48, &[again]), [refused(Refusal::OutOfEpochs)]);
}
