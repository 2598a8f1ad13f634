//! Who owns a job, and what an owner that has been replaced can still do: nothing.

use fence::{Attempt, Epoch, GroupId, JobId};
use ledger_state::{
    AttemptStatus, Command, LapseProof, Outcome, Payload, Phase, Refusal, Reply, ReportedBy,
};

use crate::world::{ALICE, BOB, GROUP, World, end, refused, session, shard, start};

fn claim(job: JobId, seen: Option<Epoch>) -> Command {
    Command::ClaimJob { job, claimant: session(BOB, 1), seen }
}

/// Every command that only an owner may give, under `epoch`.
fn owner_commands(job: JobId, epoch: Epoch) -> Vec<Command> {
    let reason = String::new();
    vec![
        start(job, epoch, 1, LapseProof::First),
        Command::RevokeAttempt {
            shard: shard(job),
            epoch,
            attempt: Attempt(1),
            reason,
            heard_ms: None,
            suspected: false,
        },
        Command::CommitContext { job, epoch, layer: 0, context: Payload::Inline(vec![1]) },
        Command::ReleaseJob { job, epoch },
        Command::FinishJob { job, epoch, outcome: Outcome::Completed, detail: String::new() },
    ]
}

/// R6, LEDG-122: the epoch of a grant is its place in the log; each grant is higher than all
/// before.
#[test]
fn an_epoch_is_the_place_of_its_grant() {
    let mut world = World::new();
    let job = world.job(1);
    let mut last = None;
    for _ in 0..5 {
        let place = world.next_epoch();
        let epoch = world.claim(ALICE, job);
        assert_eq!(epoch, place);
        assert!(last < Some(epoch));
        last = Some(epoch);
        world.restart();
    }
}

/// R7: of two that claim at once one gets it; the other is told under which epoch.
#[test]
fn one_of_two_claims_wins() {
    let mut world = World::new();
    let job = world.job(1);
    let first = world.claim(ALICE, job);
    assert_eq!(world.run(BOB, claim(job, None)), refused(Refusal::ClaimLost { held: Some(first) }));
    let reply = world.run(BOB, claim(job, Some(first)));
    let Reply::Claimed { epoch } = reply else { panic!("{reply:?}") };
    assert!(epoch > first);
    assert_eq!(world.state.job(job).unwrap().owner, Some(session(BOB, 1)));
    let unseen = claim(job, Some(first));
    assert_eq!(world.run(BOB, unseen), refused(Refusal::ClaimLost { held: Some(epoch) }));
}

/// P4, R3, CORE-27: whatever a replaced owner proposes changes nothing, and it is told the epoch
/// that holds.
#[test]
fn a_replaced_owner_changes_nothing() {
    let mut world = World::new();
    let (job, old) = world.owned(1);
    let held = world.claim(BOB, job);
    let before = world.state.job(job).cloned();
    for command in owner_commands(job, old) {
        let reply = world.run(ALICE, command);
        assert_eq!(reply, refused(Refusal::StaleEpoch { held, offered: old }));
        assert_eq!(world.state.job(job).cloned(), before);
    }
}

/// R3: what a worker said counts once, whoever passes it on. An owner that was replaced does not:
/// its successor goes by what the ledger had when it took over, and hears it from the worker.
#[test]
fn a_replaced_owner_ends_no_attempt() {
    let mut world = World::new();
    let (job, old) = world.owned(1);
    world.run(ALICE, start(job, old, 1, LapseProof::First));
    let held = world.claim(BOB, job);
    let end_under = |epoch| match end(job, 1, AttemptStatus::Completed, 10) {
        Command::EndAttempt { shard, attempt, status, counters, result, .. } => {
            Command::EndAttempt {
                shard,
                under: epoch,
                attempt,
                status,
                counters,
                result,
                sent_until_ms: None,
                word: ReportedBy::Whole,
            }
        }
        other => panic!("{other:?}"),
    };
    let before = world.state.job(job).cloned();
    let reply = world.run(ALICE, end_under(Some(old)));
    assert_eq!(reply, refused(Refusal::StaleEpoch { held, offered: old }));
    assert_eq!(world.state.job(job).cloned(), before);
    let Reply::Done { epoch } = world.run(BOB, end_under(Some(held))) else { panic!() };
    // The first end stands, and everybody is told so, whatever they hold.
    for under in [Some(old), Some(held), None] {
        assert_eq!(world.run(ALICE, end_under(under)), Reply::Already { epoch });
    }
    assert_eq!(world.state.job(job).unwrap().totals.completed, 10);
}

/// R3: equal is required. An epoch that was never granted, of another job, of a later generation or
/// another cluster is not the owner's.
#[test]
fn an_epoch_that_was_not_granted_is_refused() {
    let mut world = World::new();
    let (job, held) = world.owned(1);
    let (_, of_another) = world.owned(2);
    let later = Epoch { group: GroupId { generation: 2, ..GROUP }, ..held };
    let foreign = Epoch { group: GroupId { cluster: 8, ..GROUP }, ..held };
    for offered in [of_another, later, foreign] {
        for command in owner_commands(job, offered) {
            let unknown = Refusal::UnknownEpoch { held: Some(held), offered };
            assert_eq!(world.run(ALICE, command), refused(unknown));
        }
    }
    let unclaimed = world.job(3);
    let nobody = Refusal::UnknownEpoch { held: None, offered: held };
    for command in owner_commands(unclaimed, held) {
        assert_eq!(world.run(ALICE, command), refused(nobody));
    }
}

/// R7: a released job can be claimed again, under a new epoch; the old one is spent.
#[test]
fn a_released_epoch_is_spent() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    assert!(matches!(world.run(ALICE, Command::ReleaseJob { job, epoch }), Reply::Done { .. }));
    assert_eq!(world.state.job(job).unwrap().phase(), Phase::Running);
    for command in owner_commands(job, epoch) {
        assert_eq!(world.run(ALICE, command), refused(Refusal::Released { last: epoch }));
    }
    assert_eq!(world.run(BOB, claim(job, None)), refused(Refusal::ClaimLost { held: Some(epoch) }));
    assert!(world.claim(BOB, job) > epoch);
}

/// R2: a job is granted to a life that is present, not to one that is over or was never there.
#[test]
fn only_a_present_life_can_own() {
    let mut world = World::new();
    let job = world.job(1);
    let to = |boot| Command::ClaimJob { job, claimant: session(BOB, boot), seen: None };
    assert_eq!(world.run(ALICE, to(2)), refused(Refusal::UnknownSession));
    world.open(BOB, 2);
    assert!(matches!(world.run(ALICE, to(1)), Reply::Refused(Refusal::StaleBoot { .. })));
    assert!(matches!(world.run(ALICE, to(2)), Reply::Claimed { .. }));
}

/// CORE-30: what an owner has to know is in the ledger; the next one finds it as it was.
#[test]
fn a_new_owner_finds_everything_as_it_was() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    world.start(job, epoch, 1, LapseProof::First);
    world.end(job, 1, AttemptStatus::Completed, 5);
    world.run(
        ALICE,
        Command::CommitContext { job, epoch, layer: 0, context: Payload::Inline(vec![7]) },
    );
    world.restart();
    world.claim(BOB, job);
    let job = world.state.job(job).unwrap();
    assert_eq!(job.shards.values().next().unwrap().status(), Some(AttemptStatus::Completed));
    assert_eq!(job.contexts[0].payload, Payload::Inline(vec![7]));
    assert_eq!(job.totals.completed, 5);
}

#[test]
fn an_unknown_job_is_said_to_be_unknown() {
    let mut world = World::new();
    let (_, epoch) = world.owned(1);
    let job = JobId(1);
    let mut commands = owner_commands(job, epoch);
    commands.push(claim(job, None));
    commands.push(crate::world::end(job, 1, AttemptStatus::Completed, 1));
    for command in commands {
        assert_eq!(world.run(BOB, command), refused(Refusal::UnknownJob));
    }
    assert_eq!(world.cancel(job), refused(Refusal::UnknownJob));
}
