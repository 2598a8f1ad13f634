//! A job's life: the table in the header of `ledger_state`, cell by cell, and the races of cancel
//! and completion.

use fence::{Attempt, Epoch, JobId};
use ledger_state::{AttemptStatus, Command, LapseProof, Outcome, Payload, Phase, Refusal, Reply};

use crate::world::{ALICE, World, cancel, refused, session, shard, start};

const OUTCOMES: [Outcome; 5] =
    [Outcome::Completed, Outcome::Partial, Outcome::Failed, Outcome::Cancelled, Outcome::Timeout];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Created,
    Running,
    Released,
    Cancelling,
    Ended,
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Create,
    Claim,
    Release,
    Start,
    Revoke,
    EndAttempt,
    Context,
    Cancel,
    Finish,
}

/// A job in that place, with attempt 1 of its shard live where there can be one.
fn bring(world: &mut World, from: Place) -> (JobId, Epoch) {
    let job = world.job(1);
    if from == Place::Created {
        return (job, world.next_epoch());
    }
    let epoch = world.claim(ALICE, job);
    world.start(job, epoch, 1, LapseProof::First);
    match from {
        Place::Released => drop(world.run(ALICE, Command::ReleaseJob { job, epoch })),
        Place::Cancelling => drop(world.cancel(job)),
        Place::Ended => drop(world.finish(job, epoch, Outcome::Partial)),
        Place::Created | Place::Running => {}
    }
    (job, epoch)
}

fn act(world: &mut World, what: Do, job: JobId, epoch: Epoch) -> Reply {
    let command = match what {
        Do::Create => Command::CreateJob(Box::new(crate::world::submission(1))),
        Do::Claim => {
            let seen = world.state.job(job).unwrap().epoch;
            Command::ClaimJob { job, claimant: session(ALICE, 1), seen }
        }
        Do::Release => Command::ReleaseJob { job, epoch },
        Do::Start => {
            let mut command = start(job, epoch, 1, LapseProof::First);
            if let Command::StartAttempt { shard, .. } = &mut command {
                shard.shard = 1;
            }
            command
        }
        Do::Revoke => {
            let (shard, attempt) = (shard(job), Attempt(1));
            Command::RevokeAttempt {
                shard,
                epoch,
                attempt,
                reason: String::new(),
                heard_ms: None,
                suspected: false,
            }
        }
        Do::EndAttempt => crate::world::end(job, 1, AttemptStatus::Stopped, 1),
        Do::Context => {
            Command::CommitContext { job, epoch, layer: 0, context: Payload::Inline(vec![]) }
        }
        Do::Cancel => return world.cancel(job),
        Do::Finish => return world.finish(job, epoch, Outcome::Failed),
    };
    world.run(ALICE, command)
}

/// The answer in one word.
fn word(reply: &Reply) -> &'static str {
    match reply {
        Reply::Submitted(_) => "duplicate",
        Reply::Claimed { .. } => "claimed",
        Reply::Done { .. } => "done",
        Reply::Already { .. } => "already",
        Reply::Finished { .. } => "finished",
        Reply::Ended { .. } | Reply::Refused(Refusal::Ended { .. }) => "ended",
        Reply::Refused(Refusal::UnknownEpoch { .. }) => "not owner",
        Reply::Refused(Refusal::Released { .. }) => "released",
        Reply::Refused(Refusal::Cancelled { .. }) => "cancelled",
        Reply::Refused(Refusal::NoSuchAttempt { .. }) => "no attempt",
        other => panic!("{other:?}"),
    }
}

/// LEDG-28: every command in every place of a job's life.
#[test]
fn every_cell_of_the_table() {
    use Do::{Cancel, Claim, Context, Create, EndAttempt, Finish, Release, Revoke, Start};
    use Place::{Cancelling, Created, Ended, Released, Running};
    let (claimed, cancelling) = (Phase::Running, Phase::Cancelling);
    let partial = Phase::Ended(Outcome::Partial);
    let failed = Phase::Ended(Outcome::Failed);
    let cancelled = Phase::Ended(Outcome::Cancelled);
    let table = [
        (Created, Create, "duplicate", Phase::Created),
        (Created, Claim, "claimed", claimed),
        (Created, Release, "not owner", Phase::Created),
        (Created, Start, "not owner", Phase::Created),
        (Created, Revoke, "not owner", Phase::Created),
        (Created, EndAttempt, "no attempt", Phase::Created),
        (Created, Context, "not owner", Phase::Created),
        (Created, Cancel, "done", cancelling),
        (Created, Finish, "not owner", Phase::Created),
        (Running, Create, "duplicate", claimed),
        (Running, Claim, "claimed", claimed),
        (Running, Release, "done", claimed),
        (Running, Start, "done", claimed),
        (Running, Revoke, "done", claimed),
        (Running, EndAttempt, "done", claimed),
        (Running, Context, "done", claimed),
        (Running, Cancel, "done", cancelling),
        (Running, Finish, "finished", failed),
        (Released, Create, "duplicate", claimed),
        (Released, Claim, "claimed", claimed),
        (Released, Release, "released", claimed),
        (Released, Start, "released", claimed),
        (Released, Revoke, "released", claimed),
        (Released, EndAttempt, "done", claimed),
        (Released, Context, "released", claimed),
        (Released, Cancel, "done", cancelling),
        (Released, Finish, "released", claimed),
        (Cancelling, Create, "duplicate", cancelling),
        (Cancelling, Claim, "claimed", cancelling),
        (Cancelling, Release, "done", cancelling),
        (Cancelling, Start, "cancelled", cancelling),
        (Cancelling, Revoke, "done", cancelling),
        (Cancelling, EndAttempt, "done", cancelling),
        (Cancelling, Context, "done", cancelling),
        (Cancelling, Cancel, "already", cancelling),
        (Cancelling, Finish, "finished", cancelled),
        (Ended, Create, "duplicate", partial),
        (Ended, Claim, "ended", partial),
        (Ended, Release, "done", partial),
        (Ended, Start, "ended", partial),
        (Ended, Revoke, "done", partial),
        (Ended, EndAttempt, "done", partial),
        (Ended, Context, "ended", partial),
        (Ended, Cancel, "ended", partial),
        (Ended, Finish, "ended", partial),
    ];
    for (from, what, answer, to) in table {
        let mut world = World::new();
        let (job, epoch) = bring(&mut world, from);
        let reply = act(&mut world, what, job, epoch);
        assert_eq!(word(&reply), answer, "{from:?} {what:?}");
        assert_eq!(world.state.job(job).unwrap().phase(), to, "{from:?} {what:?}");
    }
}

/// R5, LEDG-29: the first outcome is final; whatever comes later is told which.
#[test]
fn the_first_outcome_is_final() {
    for first in OUTCOMES.into_iter().filter(|outcome| *outcome != Outcome::Cancelled) {
        let mut world = World::new();
        let (job, epoch) = world.owned(1);
        let Reply::Finished { outcome, epoch: at } = world.finish(job, epoch, first) else {
            panic!()
        };
        assert_eq!(outcome, first);
        for second in OUTCOMES {
            let reply = world.finish(job, epoch, second);
            assert_eq!(reply, Reply::Ended { outcome: first, epoch: at });
        }
        assert_eq!(world.cancel(job), Reply::Ended { outcome: first, epoch: at });
    }
}

/// R5, LEDG-29: after a cancel every outcome is CANCELLED, with the results attached.
#[test]
fn a_cancel_before_the_outcome_wins() {
    for found in OUTCOMES {
        let mut world = World::new();
        let (job, epoch) = world.owned(1);
        world.start(job, epoch, 1, LapseProof::First);
        world.cancel(job);
        world.end(job, 1, AttemptStatus::Completed, 77);
        let reply = world.finish(job, epoch, found);
        assert!(matches!(reply, Reply::Finished { outcome: Outcome::Cancelled, .. }));
        let job = world.state.job(job).unwrap();
        let end = job.end.as_ref().unwrap();
        assert_eq!((end.outcome, end.found), (Outcome::Cancelled, found));
        assert_eq!(job.totals.completed, 77);
        let cancel = job.cancel.as_ref().unwrap();
        assert_eq!((cancel.reason.as_str(), cancel.requestor.as_str()), ("enough", "eve"));
    }
}

/// An owner cannot say CANCELLED by itself.
#[test]
fn no_cancelled_outcome_without_a_cancel() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let reply = world.finish(job, epoch, Outcome::Cancelled);
    assert_eq!(reply, refused(Refusal::NotCancelled));
}

/// Claim, start and cancel in every order: the job ends CANCELLED, and nothing starts after the
/// cancel.
#[test]
fn acceptance_and_cancel_in_any_order() {
    for cancel_after in 0..=3 {
        let mut world = World::new();
        let job = world.job(1);
        let mut epoch = world.next_epoch();
        for step in 0..=3 {
            if step == cancel_after {
                assert!(matches!(world.cancel(job), Reply::Done { .. }));
            }
            match step {
                0 => epoch = world.claim(ALICE, job),
                1 => {
                    let reply = world.start(job, epoch, 1, LapseProof::First);
                    assert_eq!(matches!(reply, Reply::Done { .. }), cancel_after > 1);
                }
                2 => drop(world.end(job, 1, AttemptStatus::Stopped, 1)),
                _ => {}
            }
        }
        assert_eq!(world.state.job(job).unwrap().phase(), Phase::Cancelling);
        world.finish(job, epoch, Outcome::Completed);
        assert_eq!(world.state.job(job).unwrap().phase(), Phase::Ended(Outcome::Cancelled));
    }
}

/// A cancel that overtakes the dispatch leaves a tombstone that refuses it, also after a restart.
#[test]
fn a_cancel_that_overtakes_the_dispatch_stops_it() {
    let mut world = World::new();
    let job = world.job(1);
    let Reply::Done { epoch: at } = world.cancel(job) else { panic!() };
    world.restart();
    let epoch = world.claim(ALICE, job);
    let reply = world.start(job, epoch, 1, LapseProof::First);
    assert_eq!(reply, refused(Refusal::Cancelled { epoch: at }));
    assert_eq!(world.cancel(job), Reply::Already { epoch: at });
}

/// Cancel and completion in one entry, in either order: one outcome, the same for everybody who
/// asks.
#[test]
fn cancel_and_completion_race_to_one_outcome() {
    for cancel_first in [true, false] {
        let mut world = World::new();
        let (job, epoch) = world.owned(1);
        let cancel = cancel(job, 1);
        let finish =
            Command::FinishJob { job, epoch, outcome: Outcome::Completed, detail: String::new() };
        let pair = if cancel_first { [cancel, finish] } else { [finish, cancel] };
        let batch = pair.map(|command| world.proposal(session(ALICE, 1), command));
        world.send_all(&batch);
        let expected = if cancel_first { Outcome::Cancelled } else { Outcome::Completed };
        assert_eq!(world.state.job(job).unwrap().phase(), Phase::Ended(expected));
        for _ in 0..2 {
            assert!(
                matches!(world.cancel(job), Reply::Ended { outcome, .. } if outcome == expected)
            );
            world.restart();
        }
    }
}
