//! Proof that the checks can fail: states bent by hand, one promise each, and the bugs that the
//! simulator puts back.

use std::sync::Arc;

use fence::{Attempt, BootId, Epoch, GroupId, Hlc, JobId, NodeId, ShardKey, WorkflowNo};

use super::job::{AttemptEnd, Cancel};
use super::*;

const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };
const WHO: SessionId = SessionId { node: NodeId(1), boot: BootId(1) };

fn proposal(seq: u64, command: Command) -> Proposal {
    let request = RequestId { session: WHO, seq };
    Proposal { request, settled: 0, at: Hlc::default(), command }
}

fn create() -> CreateJob {
    CreateJob {
        tenant: "acme".to_owned(),
        key: IdempotencyKey { client: "c".to_owned(), sequence: 1, nonce: [0; 16] },
        fingerprint: [0; 32],
        name: "n".to_owned(),
        plan: BlobRef { hash: [0; 32], bytes: 1 },
        age_ms: 0,
        rehearsal: false,
    }
}

fn id() -> JobId {
    create().key.job_id("acme")
}

fn shard() -> ShardKey {
    ShardKey { job: id(), workflow: WorkflowNo(0), shard: 0 }
}

fn start(epoch: Epoch, attempt: u32, after: LapseProof) -> Command {
    let (worker, boot) = (NodeId(9), BootId(1));
    let (attempt, terms) = (Attempt(attempt), AttemptTerms::default());
    Command::StartAttempt { shard: shard(), epoch, attempt, worker, boot, after, terms }
}

fn end(attempt: u32) -> Command {
    Command::EndAttempt {
        shard: shard(),
        under: None,
        attempt: Attempt(attempt),
        status: AttemptStatus::Stopped,
        counters: Counters { completed: 10, ..Counters::default() },
        result: None,
        sent_until_ms: None,
        word: ReportedBy::Whole,
    }
}

/// A claimed job: attempt 1 revoked and replaced, attempt 2 ended, one context.
fn commands() -> Vec<Command> {
    let (job, epoch) = (id(), Epoch::at(GROUP, 1, 2));
    let (attempt, reason) = (Attempt(1), "lost".to_owned());
    vec![
        Command::OpenSession,
        Command::CreateJob(Box::new(create())),
        Command::ClaimJob { job, claimant: WHO, seen: None },
        start(epoch, 1, LapseProof::First),
        Command::RevokeAttempt {
            shard: shard(),
            epoch,
            attempt,
            reason,
            heard_ms: None,
            suspected: false,
        },
        start(epoch, 2, LapseProof::LeaseLapsed),
        end(1),
        end(2),
        Command::CommitContext { job, epoch, layer: 0, context: Payload::Inline(vec![1]) },
    ]
}

fn batch() -> Vec<Proposal> {
    (0..).zip(commands()).map(|(seq, command)| proposal(seq, command)).collect()
}

fn state() -> State {
    let mut state = State::new(GROUP, Limits::default());
    let replies = state.apply(1, &batch());
    assert!(replies.iter().all(|reply| reply.refusal().is_none()), "{replies:?}");
    assert_eq!(state.check(), Ok(()));
    state
}

fn ended() -> State {
    let mut state = state();
    let (job, epoch) = (id(), Epoch::at(GROUP, 1, 2));
    let outcome = Outcome::Completed;
    let finish = Command::FinishJob { job, epoch, outcome, detail: String::new() };
    state.apply(2, &[proposal(100, finish)]);
    assert_eq!(state.check(), Ok(()));
    state
}

fn job(state: &mut State) -> &mut Job {
    Arc::make_mut(state.jobs.get_mut(&id()).expect("the job is there"))
}

fn attempts(state: &mut State) -> &mut Vec<AttemptRecord> {
    let shard = job(state).shards.values_mut().next().expect("the shard is there");
    &mut shard.attempts
}

/// P3: a batch is its commands one after the other.
#[test]
fn applied_one_by_one_or_together() {
    let together = state();
    let mut apart = State::new(GROUP, Limits::default());
    apart.applied = 1;
    for (position, proposal) in (0..).zip(&batch()) {
        apart.apply_at(1, position, proposal);
        apart = State::decode(&apart.encode()).expect("what was encoded can be decoded");
    }
    assert_eq!(apart.digest(), together.digest());
    assert_eq!(apart, together);
}

/// Each promise, broken in one place, is named.
#[test]
fn every_check_can_fail() {
    type Bend = fn(&mut State);
    let bends: Vec<(&str, &str, Bend)> = vec![
        ("P1", "two live attempts", |s| attempts(s)[0].revoked = None),
        ("P1", "no proof", |s| attempts(s)[1].after = LapseProof::HigherBoot(BootId(1))),
        ("P1", "no first attempt", |s| attempts(s)[0].after = LapseProof::Stopped),
        ("P1", "an empty shard", |s| {
            attempts(s).clear();
            job(s).totals = Counters::default();
        }),
        ("R5", "too many attempts", |s| {
            let last = AttemptRecord { end: None, ..attempts(s)[1].clone() };
            attempts(s).resize(102, last);
        }),
        ("R17", "not sealed", |s| attempts(s)[0].sealed = None),
        ("R17", "sealed by nobody", |s| attempts(s)[1].sealed = Some(Epoch::at(GROUP, 1, 9))),
        ("P2", "another key", |s| job(s).key.sequence = 2),
        ("P4", "held under an old epoch", |s| job(s).epoch = Some(Epoch::at(GROUP, 1, 0))),
        ("P4", "owned but never claimed", |s| job(s).epoch = None),
        ("P4", "an epoch from the future", |s| job(s).epoch = Some(Epoch::at(GROUP, 2, 0))),
        ("P4", "attempts out of order", |s| attempts(s)[1].started = Epoch::at(GROUP, 1, 1)),
        ("P5", "counted twice", |s| job(s).totals.completed += 10),
        ("IDEM-2", "miscounted bytes", |s| s.derived.bytes += 1),
        ("IDEM-2", "miscounted attempts", |s| s.derived.attempts += 1),
        ("IDEM-2", "more jobs than allowed", |s| s.limits.jobs = 0),
        ("IDEM-20", "an active job in the queue", |s| {
            s.derived.expiry.insert((1, id()));
        }),
        ("R3", "more answers than allowed", |s| s.limits.window = 2),
    ];
    for (promise, how, bend) in bends {
        let mut bent = state();
        bend(&mut bent);
        let violation = bent.check().expect_err(how);
        assert!(violation.id == promise, "{how}: expected {promise}, found {violation}");
        // What is only derived is counted anew when a state is read; everything else is refused.
        let derived = how.starts_with("miscounted") || promise == "IDEM-20";
        let read = State::decode(&bent.encode());
        assert!(derived || matches!(read, Err(DecodeError::Impossible(_))), "{how}: {read:?}");
    }
    let after_the_end: Vec<(&str, Bend)> = vec![
        ("an outcome without its cancel", |s| {
            job(s).end.as_mut().expect("ended").outcome = Outcome::Cancelled;
        }),
        ("a cancel that did not count", |s| {
            let (epoch, at) = (Epoch::at(GROUP, 1, 9), Hlc::default());
            let (reason, requestor) = (String::new(), String::new());
            job(s).cancel = Some(Cancel {
                epoch,
                at,
                reason,
                requestor,
                nonce: [1; 16],
                stop_until_ms: 0,
                teardown_until_ms: 0,
                hooks: None,
                hard: None,
            });
        }),
        ("another finding", |s| job(s).end.as_mut().expect("ended").found = Outcome::Failed),
        ("ended before it was claimed", |s| {
            job(s).end.as_mut().expect("ended").epoch = Epoch::at(GROUP, 1, 1);
        }),
    ];
    for (how, bend) in after_the_end {
        let mut bent = ended();
        bend(&mut bent);
        assert_eq!(bent.check().expect_err(how).id, "LEDG-28", "{how}");
    }
    let mut bent = ended();
    job(&mut bent).end.as_mut().expect("ended").epoch = Epoch::at(GROUP, 1, 4);
    assert_eq!(bent.check().expect_err("an attempt after the end").id, "LEDG-28");
}

/// Each thing that may not change between two states, changed, is named.
#[test]
fn every_step_check_can_fail() {
    type Bend = fn(&mut State);
    let bends: Vec<(&str, &str, Bend)> = vec![
        ("P3", "the log went back", |s| s.applied = 0),
        ("P3", "another cluster", |s| s.group.cluster = 8),
        ("R3", "a session forgotten", |s| s.sessions = Sessions::default()),
        ("IDEM-19", "gone too early", |s| s.jobs.clear()),
        ("P2", "another plan", |s| job(s).plan.bytes = 2),
        ("R5", "another outcome in detail", |s| {
            job(s).end.as_mut().expect("ended").detail = "x".to_owned();
        }),
        ("LEDG-28", "another outcome", |s| {
            job(s).end.as_mut().expect("ended").outcome = Outcome::Failed;
        }),
        ("LEDG-28", "running again", |s| job(s).end = None),
        ("LEDG-28", "another context", |s| job(s).contexts.clear()),
        ("P4", "a lower epoch", |s| job(s).epoch = Some(Epoch::at(GROUP, 1, 1))),
        ("P4", "another owner under the same epoch", |s| {
            job(s).owner = Some(SessionId { boot: BootId(2), ..WHO });
        }),
        ("P5", "lower totals", |s| job(s).totals.completed = 1),
        ("P1", "a shard is gone", |s| job(s).shards.clear()),
        ("P1", "an attempt is gone", |s| drop(attempts(s).pop())),
        ("R17", "another end of an attempt", |s| {
            let end: &mut AttemptEnd = attempts(s)[0].end.as_mut().expect("ended");
            end.status = AttemptStatus::Completed;
        }),
        ("R17", "another worker", |s| attempts(s)[1].worker = NodeId(3)),
    ];
    let before = ended();
    assert_eq!(check_step(&before, &before), Ok(()));
    assert_eq!(check_step(&state(), &before), Ok(()));
    for (promise, how, bend) in bends {
        let mut bent = before.clone();
        bend(&mut bent);
        let violation = check_step(&before, &bent).expect_err(how);
        assert!(violation.id == promise, "{how}: expected {promise}, found {violation}");
    }
    let mut earlier = before.clone();
    earlier.now_ms = 5;
    assert_eq!(check_step(&earlier, &before).expect_err("time went back").id, "IDEM-19");
}

/// The bugs that the simulator puts back break a promise that these checks know.
#[cfg(feature = "canary")]
mod canaries {
    use super::*;
    use fence::canary::set;

    /// P4: after a restart the counter begins again, and the second owner gets no higher epoch.
    #[test]
    fn a_reused_fence_is_found() {
        set(Some(Canary::ReuseFenceAfterRestart));
        let mut state = State::new(GROUP, Limits::default());
        let claim = |seen| Command::ClaimJob { job: id(), claimant: WHO, seen };
        let mut batch = batch();
        batch.truncate(2);
        state.apply(1, &batch);
        state.apply(2, &[proposal(2, claim(None))]);
        assert_eq!(state.check(), Ok(()));
        let mut state = State::decode(&state.encode()).expect("what was encoded can be decoded");
        let held = state.job(id()).and_then(|job| job.epoch);
        state.apply(3, &[proposal(3, claim(held))]);
        set(None);
        assert_eq!(state.check().expect_err("the epoch was used before").id, "P4");
    }

    /// P5: a repeated result is added again.
    #[test]
    fn a_result_applied_twice_is_found() {
        set(Some(Canary::ApplyResultTwice));
        let mut state = state();
        state.apply(2, &[proposal(50, end(2))]);
        set(None);
        assert_eq!(state.check().expect_err("it was counted twice").id, "P5");
    }
}
