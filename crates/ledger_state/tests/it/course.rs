//! The course of a job under its owner: division, beginning, rows, steering, early stop, result.

use std::time::Duration;

use fence::{Attempt, Epoch, JobId, WorkflowNo};
use ledger_state::Steer;
use ledger_state::{
    AttemptStatus, Command, LapseProof, Limits, Outcome, Problem, Refusal, Reply, Resource,
    StopCause,
};

use crate::world::{ALICE, BOB, World, blob, refused, shard};

fn provision(job: JobId, epoch: Epoch, shards: &[(u32, u32)]) -> Command {
    let shards = shards.iter().map(|(w, count)| (WorkflowNo(*w), *count)).collect();
    Command::Provision { job, epoch, shards }
}

fn begin(job: JobId, epoch: Epoch, workflow: u32) -> Command {
    Command::BeginLoad { job, epoch, workflows: vec![WorkflowNo(workflow)] }
}

fn grant(job: JobId, epoch: Epoch, attempt: u32, count: u64, of: u64) -> Command {
    Command::GrantRows { shard: shard(job), epoch, attempt: Attempt(attempt), set: 0, count, of }
}

/// EXEC-66: a division is for good, also for the next owner; those of one entry are one batch.
#[test]
fn a_division_stands() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let Reply::Done { epoch: at } = world.run(ALICE, provision(job, epoch, &[(0, 18), (1, 6)]))
    else {
        panic!("not divided");
    };
    assert_eq!(world.run(ALICE, provision(job, epoch, &[(1, 6)])), Reply::Already { epoch: at });
    let next = world.claim(BOB, job);
    let workflow = WorkflowNo(0);
    assert_eq!(
        world.run(BOB, provision(job, next, &[(0, 17)])),
        refused(Refusal::OtherDivision { workflow, shards: 18 })
    );
    let stale = world.run(ALICE, provision(job, epoch, &[(2, 1)]));
    assert!(matches!(stale, Reply::Refused(Refusal::StaleEpoch { .. })), "{stale:?}");
    let record = world.state.job(job).unwrap();
    assert_eq!(record.provisioned[&workflow].epoch, record.provisioned[&WorkflowNo(1)].epoch);
}

/// R10: a job has so many shards at most, and a division makes sense.
#[test]
fn a_division_is_bounded() {
    let mut world = World::with(Limits { shards_per_job: 10, ..Limits::default() });
    let (job, epoch) = world.owned(1);
    for (shards, count) in [(vec![(0, 0)], 0), (vec![(0, 11)], 11), (vec![(0, 1), (0, 2)], 2)] {
        let problem = Problem::Division { workflow: WorkflowNo(0), shards: count };
        let reply = world.run(ALICE, provision(job, epoch, &shards));
        assert_eq!(reply, refused(Refusal::Invalid(problem)));
    }
    world.run(ALICE, provision(job, epoch, &[(0, 8)]));
    let full = refused(Refusal::Full(Resource::Shards { limit: 10 }));
    assert_eq!(world.run(ALICE, provision(job, epoch, &[(1, 3)])), full);
}

/// The zero of a schedule is a time of the ledger's own; it is set once, and only for what was
/// divided.
#[test]
fn load_begins_once() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let workflow = WorkflowNo(0);
    assert_eq!(
        world.run(ALICE, begin(job, epoch, 0)),
        refused(Refusal::NotProvisioned { workflow })
    );
    world.run(ALICE, provision(job, epoch, &[(0, 2)]));
    world.wait(1_500);
    assert!(matches!(world.run(ALICE, begin(job, epoch, 0)), Reply::Done { .. }));
    world.wait(500);
    assert!(matches!(world.run(ALICE, begin(job, epoch, 0)), Reply::Already { .. }));
    assert_eq!(world.state.job(job).unwrap().provisioned[&workflow].begun_ms, Some(1_500));
    world.restart();
    world.cancel(job);
    let late = world.run(ALICE, provision(job, epoch, &[(1, 2)]));
    assert!(matches!(late, Reply::Refused(Refusal::Cancelled { .. })), "{late:?}");
}

/// R5a: rows go to one attempt and nobody else, in order, until there are none left; a lost
/// attempt's are gone.
#[test]
fn rows_are_given_out_once() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let none = world.run(ALICE, grant(job, epoch, 1, 10, 25));
    assert_eq!(none, refused(Refusal::NotLive { attempt: Attempt(1) }));
    world.start(job, epoch, 1, LapseProof::First);
    let rows = |reply: Reply| match reply {
        Reply::Rows { first, end, .. } => (first, end),
        other => panic!("{other:?}"),
    };
    assert_eq!(rows(world.run(ALICE, grant(job, epoch, 1, 10, 25))), (0, 10));
    world.revoke(job, epoch, 1);
    let over = world.run(ALICE, grant(job, epoch, 1, 10, 25));
    assert_eq!(over, refused(Refusal::NotLive { attempt: Attempt(1) }));
    world.start(job, epoch, 2, LapseProof::LeaseLapsed);
    let epoch = world.claim(BOB, job);
    assert_eq!(rows(world.run(BOB, grant(job, epoch, 2, 10, 25))), (10, 20));
    assert_eq!(rows(world.run(BOB, grant(job, epoch, 2, 10, 25))), (20, 25));
    assert_eq!(rows(world.run(BOB, grant(job, epoch, 2, 10, 25))), (25, 25));
    // A request that comes again gets the same rows.
    let proposal = world.proposal(crate::world::session(BOB, 1), grant(job, epoch, 2, 5, u64::MAX));
    let first = world.send(proposal.clone());
    assert_eq!(world.send(proposal), first);
}

/// A stop, an extension and a result are said once; steering keeps what is in force, one of each
/// kind.
#[test]
fn what_an_owner_decides_is_kept() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    let stop = |cause| Command::StopJob { job, epoch, cause, reason: "p95".to_owned() };
    assert!(matches!(world.run(ALICE, stop(StopCause::Threshold(2))), Reply::Done { .. }));
    assert!(matches!(world.run(ALICE, stop(StopCause::Timeout)), Reply::Already { .. }));
    for (total_ms, done) in [(15_000, true), (7_000, false), (22_500, true)] {
        let reply = world.run(ALICE, Command::ExtendJob { job, epoch, total_ms });
        assert_eq!(matches!(reply, Reply::Done { .. }), done);
    }
    let vus = |vus| Steer::Vus { workflow: WorkflowNo(0), vus };
    let rate = Steer::Rate { workflow: WorkflowNo(0), per_second: 2.5, from: Duration::ZERO };
    let again = Steer::Rate { workflow: WorkflowNo(0), per_second: 5.0, from: Duration::ZERO };
    for steer in [Steer::Pause, vus(3), rate.clone(), Steer::Resume, vus(9), again] {
        world.run(ALICE, Command::SteerJob { job, epoch, steer });
    }
    let steer = Steer::Rate { workflow: WorkflowNo(0), per_second: f64::NAN, from: Duration::ZERO };
    let nonsense = world.run(ALICE, Command::SteerJob { job, epoch, steer });
    assert_eq!(nonsense, refused(Refusal::Invalid(Problem::Rate)));
    let record = world.state.job(job).unwrap();
    // All rates are kept, and each has its time.
    let from = Duration::from_millis(1);
    let again = Steer::Rate { workflow: WorkflowNo(0), per_second: 5.0, from };
    assert_eq!(record.steering().steers, [rate, Steer::Resume, vus(9), again]);
    assert_eq!(record.steering().number, 6);
    assert_eq!(record.stop.as_ref().unwrap().cause, StopCause::Threshold(2));
    assert_eq!(record.extended_ms, 22_500);

    let result = |byte| Command::RecordResult { job, epoch, result: blob(byte) };
    assert!(matches!(world.run(ALICE, result(5)), Reply::Done { .. }));
    assert!(matches!(world.run(ALICE, result(6)), Reply::Already { .. }));
    assert!(world.state.blobs_in_use().contains(&blob(5)));
    world.restart();
    world.finish(job, epoch, Outcome::Completed);
    let late = world.run(ALICE, result(7));
    assert!(matches!(late, Reply::Refused(Refusal::Ended { .. })), "{late:?}");
    assert_eq!(
        world.end(job, 1, AttemptStatus::Completed, 1),
        refused(Refusal::NoSuchAttempt { last: Attempt(0) })
    );
}
