//! Attempts: one at a time, each after proof, each counted once.

use fence::{Attempt, BootId, Epoch, JobId};
use ledger_state::{AttemptStatus, Command, LapseProof, Limits, Refusal, Reply, Resource};

use crate::world::{ALICE, BOB, World, end, refused, shard, start};

fn running(world: &mut World) -> (JobId, Epoch) {
    let (job, epoch) = world.owned(1);
    assert!(matches!(world.start(job, epoch, 1, LapseProof::First), Reply::Done { .. }));
    (job, epoch)
}

/// P1, R4: nothing starts beside a live attempt, whatever is claimed about it.
#[test]
fn a_live_attempt_is_not_replaced() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    for after in [
        LapseProof::Stopped,
        LapseProof::HigherBoot(BootId(6)),
        LapseProof::LeaseLapsed,
        LapseProof::First,
    ] {
        let reply = world.start(job, epoch, 2, after);
        assert_eq!(reply, refused(Refusal::StillLive { attempt: Attempt(1) }));
    }
}

/// P1, R4: after the revoke each of the three proofs will do, and nothing else.
#[test]
fn a_revoked_attempt_is_replaced_on_proof() {
    for (after, proves) in [
        (LapseProof::First, false),
        (LapseProof::HigherBoot(BootId(4)), false),
        (LapseProof::HigherBoot(BootId(5)), false),
        (LapseProof::HigherBoot(BootId(6)), true),
        (LapseProof::Stopped, true),
        (LapseProof::LeaseLapsed, true),
    ] {
        let mut world = World::new();
        let (job, epoch) = running(&mut world);
        world.revoke(job, epoch, 1);
        let reply = world.start(job, epoch, 2, after);
        if proves {
            assert!(matches!(reply, Reply::Done { .. }), "{after:?}");
            let attempts = &world.state.job(job).unwrap().shard(&shard(job)).unwrap().attempts;
            assert_eq!(attempts[0].sealed, Some(attempts[1].started), "R17: n is sealed by n + 1");
        } else {
            assert_eq!(reply, refused(Refusal::NoProof { attempt: Attempt(1) }), "{after:?}");
        }
    }
}

/// R2: attempts are numbered without gaps, from 1; the first needs nothing before it.
#[test]
fn attempts_come_in_order() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    for attempt in [2, 7, u32::MAX] {
        let reply = world.start(job, epoch, attempt, LapseProof::First);
        assert_eq!(reply, refused(Refusal::WrongAttempt { expected: Attempt(1) }));
    }
    assert!(matches!(
        world.start(job, epoch, 0, LapseProof::First),
        Reply::Refused(Refusal::Invalid(_))
    ));
    let reply = world.start(job, epoch, 1, LapseProof::Stopped);
    assert_eq!(reply, refused(Refusal::NoProof { attempt: Attempt(0) }));
    assert!(world.state.job(job).unwrap().shards.is_empty());
}

/// R3: the same start again, as another request, is the same start; with another worker it is not.
#[test]
fn a_repeated_start_is_one_start() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    let started = world.state.job(job).unwrap().attempts().next().unwrap().started;
    let reply = world.start(job, epoch, 1, LapseProof::First);
    assert_eq!(reply, Reply::Already { epoch: started });
    // The next owner has another epoch; for it, it is not the same.
    let later = world.claim(ALICE, job);
    let reply = world.start(job, later, 1, LapseProof::First);
    assert_eq!(reply, refused(Refusal::WrongAttempt { expected: Attempt(2) }));
}

/// R5: loss is retried three times, no more.
#[test]
fn retries_are_limited() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    for attempt in 1..=3 {
        world.revoke(job, epoch, attempt);
        let reply = world.start(job, epoch, attempt + 1, LapseProof::LeaseLapsed);
        assert!(matches!(reply, Reply::Done { .. }));
    }
    world.revoke(job, epoch, 4);
    let reply = world.start(job, epoch, 5, LapseProof::LeaseLapsed);
    assert_eq!(reply, refused(Refusal::RetriesExhausted { limit: 3 }));
}

/// A loss that proved false uses no retry: its worker was taken for gone, and has said itself that
/// it stopped. What a process that ended has left (interrupted), and a loss that was none by hints,
/// do use one. Everybody who reads the ledger counts the same; and there is an end to it.
#[test]
fn a_loss_that_proved_false_uses_no_retry() {
    let stopped = AttemptStatus::Stopped;
    for (suspected, status, free) in
        [(true, stopped, true), (true, AttemptStatus::Interrupted, false), (false, stopped, false)]
    {
        let mut world = World::new();
        let (job, epoch) = running(&mut world);
        let mut started = 1;
        let refusal = loop {
            let (attempt, reason) = (Attempt(started), "silent".to_owned());
            let revoke = Command::RevokeAttempt {
                shard: shard(job),
                epoch,
                attempt,
                reason,
                heard_ms: None,
                suspected,
            };
            world.run(ALICE, revoke);
            world.end(job, started, status, 1);
            match world.start(job, epoch, started + 1, LapseProof::Stopped) {
                Reply::Done { .. } => started += 1,
                other => break other,
            }
        };
        assert_eq!(refusal, refused(Refusal::RetriesExhausted { limit: 3 }));
        assert_eq!(started, if free { 17 } else { 4 }, "{suspected}, {status}");
    }
}

/// R5: error is final, and so is success; what was only stopped or interrupted may go on.
#[test]
fn error_is_final_and_loss_is_retried() {
    for (status, is_final) in [
        (AttemptStatus::Completed, true),
        (AttemptStatus::Failed, true),
        (AttemptStatus::Stopped, false),
        (AttemptStatus::Interrupted, false),
    ] {
        let mut world = World::new();
        let (job, epoch) = running(&mut world);
        world.end(job, 1, status, 1);
        let reply = world.start(job, epoch, 2, LapseProof::Stopped);
        if is_final {
            assert_eq!(reply, refused(Refusal::Settled { attempt: Attempt(1), status }));
        } else {
            assert!(matches!(reply, Reply::Done { .. }), "{status}");
        }
    }
}

/// P5, R3, R17a: a result that arrives again, through whomever and whenever, is counted once; the
/// first one stands.
#[test]
fn a_result_is_counted_once() {
    let mut world = World::new();
    let (job, _) = running(&mut world);
    let first = world.end(job, 1, AttemptStatus::Completed, 100);
    let Reply::Done { epoch } = first else { panic!("{first:?}") };
    for node in [ALICE, BOB] {
        for (status, completed) in [(AttemptStatus::Completed, 100), (AttemptStatus::Failed, 5)] {
            let reply = world.run(node, end(job, 1, status, completed));
            assert_eq!(reply, Reply::Already { epoch });
        }
        world.restart();
    }
    assert_eq!(world.completed(job), 100);
    let shard = world.state.job(job).unwrap().shard(&shard(job)).unwrap();
    assert_eq!(shard.status(), Some(AttemptStatus::Completed));
}

/// R3, R17: results are not fenced. A replaced attempt's counts are added once; its status has no
/// say.
#[test]
fn a_replaced_attempt_counts_but_does_not_decide() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    world.revoke(job, epoch, 1);
    world.start(job, epoch, 2, LapseProof::LeaseLapsed);
    world.claim(BOB, job);
    let late = world.end(job, 1, AttemptStatus::Completed, 40);
    let Reply::Superseded { epoch: at, by: Attempt(2) } = late else { panic!("{late:?}") };
    assert_eq!(world.state.job(job).unwrap().shard(&shard(job)).unwrap().status(), None);
    assert_eq!(world.end(job, 1, AttemptStatus::Completed, 40), Reply::Already { epoch: at });
    world.end(job, 2, AttemptStatus::Failed, 60);
    assert_eq!(world.completed(job), 100, "the sum over all attempts");
    let shard = world.state.job(job).unwrap().shard(&shard(job)).unwrap();
    assert_eq!(shard.status(), Some(AttemptStatus::Failed));
}

/// R17: counts that come after the job's end are still counted; the outcome does not move.
#[test]
fn late_counts_do_not_change_the_outcome() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    world.finish(job, epoch, ledger_state::Outcome::Timeout);
    let end = world.state.job(job).unwrap().end.clone();
    assert!(matches!(world.end(job, 1, AttemptStatus::Completed, 9), Reply::Done { .. }));
    assert_eq!(world.completed(job), 9);
    assert_eq!(world.state.job(job).unwrap().end, end);
}

/// R4: revoking twice, or too late, changes nothing; what was never started cannot be revoked or
/// ended.
#[test]
fn revoke_is_idempotent() {
    let mut world = World::new();
    let (job, epoch) = running(&mut world);
    let Reply::Done { epoch: at } = world.revoke(job, epoch, 1) else { panic!() };
    assert_eq!(world.revoke(job, epoch, 1), Reply::Already { epoch: at });
    world.end(job, 1, AttemptStatus::Stopped, 1);
    assert_eq!(world.revoke(job, epoch, 1), Reply::Already { epoch: at });
    let none = refused(Refusal::NoSuchAttempt { last: Attempt(1) });
    for attempt in [0, 2, u32::MAX] {
        assert_eq!(world.revoke(job, epoch, attempt), none);
        assert_eq!(world.end(job, attempt, AttemptStatus::Stopped, 1), none);
    }

    let (other, epoch) = world.owned(2);
    world.start(other, epoch, 1, LapseProof::First);
    let Reply::Done { epoch: ended } = world.end(other, 1, AttemptStatus::Completed, 1) else {
        panic!()
    };
    assert_eq!(world.revoke(other, epoch, 1), Reply::Already { epoch: ended });
}

/// An attempt stays its worker's until the ledger has proof; a new owner alone is none.
#[test]
fn a_new_owner_does_not_free_the_attempts() {
    let mut world = World::new();
    let (job, _) = running(&mut world);
    let epoch = world.claim(ALICE, job);
    let reply = world.start(job, epoch, 2, LapseProof::LeaseLapsed);
    assert_eq!(reply, refused(Refusal::StillLive { attempt: Attempt(1) }));
}

/// R10: attempts and shards are bounded.
#[test]
fn attempts_and_shards_are_bounded() {
    let limits = Limits { attempts: 3, shards_per_job: 2, ..Limits::default() };
    let mut world = World::with(limits);
    let (job, epoch) = world.owned(1);
    let nth = |number| {
        let mut command = start(job, epoch, 1, LapseProof::First);
        if let ledger_state::Command::StartAttempt { shard, .. } = &mut command {
            shard.shard = number;
        }
        command
    };
    assert!(matches!(world.run(ALICE, nth(0)), Reply::Done { .. }));
    assert!(matches!(world.run(ALICE, nth(1)), Reply::Done { .. }));
    let full = refused(Refusal::Full(Resource::Shards { limit: 2 }));
    assert_eq!(world.run(ALICE, nth(2)), full);
    let (other, epoch) = world.owned(2);
    world.start(other, epoch, 1, LapseProof::First);
    world.revoke(other, epoch, 1);
    let reply = world.start(other, epoch, 2, LapseProof::LeaseLapsed);
    assert_eq!(reply, refused(Refusal::Full(Resource::Attempts { limit: 3 })));
}
