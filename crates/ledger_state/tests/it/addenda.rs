//! Addenda: a worker's own word on an attempt that its owner has ended, whenever it comes (R27).

use fence::{Attempt, Epoch, JobId};
use ledger_state::{
    AttemptStatus, BlobRef, Command, Counters, LapseProof, Limits, Outcome, Phase, Refusal, Reply,
    ReportedBy, Resource,
};

use crate::world::{ALICE, BOB, World, refused, shard};

fn word(
    job: JobId,
    attempt: u32,
    issued: u64,
    word: ReportedBy,
    result: Option<BlobRef>,
) -> Command {
    Command::EndAttempt {
        shard: shard(job),
        under: None,
        attempt: Attempt(attempt),
        status: AttemptStatus::Interrupted,
        counters: Counters { issued, completed: issued / 2, ..Counters::default() },
        result,
        sent_until_ms: None,
        word,
    }
}

fn blob(byte: u8, bytes: u64) -> Option<BlobRef> {
    Some(BlobRef { hash: [byte; 32], bytes })
}

/// A job with one attempt that its owner has ended with 100 requests.
fn given_up(world: &mut World, sequence: u64) -> (JobId, Epoch) {
    let (job, epoch) = world.owned(sequence);
    assert!(matches!(world.start(job, epoch, 1, LapseProof::First), Reply::Done { .. }));
    world.revoke(job, epoch, 1);
    let reply = world.run(ALICE, word(job, 1, 100, ReportedBy::Owner, None));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    (job, epoch)
}

/// Whose word came first, whose comes then, and whether it is taken.
#[test]
fn only_a_workers_word_after_its_owners_is_an_addendum_and_only_one() {
    let cases = [
        (ReportedBy::Owner, ReportedBy::Whole, true),
        (ReportedBy::Owner, ReportedBy::Partial, true),
        (ReportedBy::Owner, ReportedBy::Owner, false),
        (ReportedBy::Whole, ReportedBy::Whole, false),
        (ReportedBy::Whole, ReportedBy::Partial, false),
        (ReportedBy::Partial, ReportedBy::Whole, false),
    ];
    for (first, second, taken) in cases {
        let mut world = World::new();
        let (job, epoch) = world.owned(1);
        world.start(job, epoch, 1, LapseProof::First);
        let ended = world.run(ALICE, word(job, 1, 100, first, None));
        let Reply::Done { epoch: end } = ended else { panic!("{ended:?}") };
        let totals = world.state.job(job).unwrap().totals;
        let reply = world.run(BOB, word(job, 1, 130, second, blob(1, 9)));
        assert_eq!(matches!(reply, Reply::Done { .. }), taken, "{first:?}, {second:?}: {reply:?}");
        let again = world.run(BOB, word(job, 1, 150, second, blob(2, 9)));
        assert_eq!(again, Reply::Already { epoch: end }, "{first:?}, {second:?}");
        let known = world.state.job(job).unwrap();
        let record = known.shard(&shard(job)).unwrap().attempt(Attempt(1)).unwrap();
        assert_eq!(record.end.as_ref().unwrap().counters.issued, 100, "the end stays");
        assert_eq!(known.totals, totals, "and so do the sums of ends");
        assert_eq!(record.added().map(|added| added.issued), taken.then_some(30));
        let used = known.blobs().any(|used| Some(used) == blob(1, 9));
        assert_eq!(used, taken, "its report is kept as long as the job");
        assert!(!record.is_unheard() || !taken);
        world.restart();
    }
}

/// R5: a worker that comes back when everything is over changes no outcome; what it told is kept as
/// long as the job.
#[test]
fn an_addendum_leaves_the_outcome_and_goes_with_its_job() {
    let mut world = World::new();
    let (job, epoch) = given_up(&mut world, 1);
    world.finish(job, epoch, Outcome::Partial);
    let end = world.state.job(job).unwrap().end.clone();
    let reply = world.run(BOB, word(job, 1, 130, ReportedBy::Whole, blob(1, 9)));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    let known = world.state.job(job).unwrap();
    assert_eq!((known.phase(), &known.end), (Phase::Ended(Outcome::Partial), &end));
    world.restart();
    world.wait(world.state.limits().kept_ms + 1_000);
    assert!(world.state.job(job).is_none());
    assert!(world.state.blobs_in_use().is_empty());
    let late = world.run(BOB, word(job, 1, 130, ReportedBy::Whole, blob(1, 9)));
    assert_eq!(late, refused(Refusal::UnknownJob));
}

#[test]
fn addenda_are_bounded_by_job_and_by_the_bytes_of_all() {
    let limits = Limits { addenda_per_job: 1, addenda_bytes: 100, ..Limits::default() };
    let mut world = World::with(limits);
    let (job, epoch) = given_up(&mut world, 1);
    world.start(job, epoch, 2, LapseProof::LeaseLapsed);
    world.run(ALICE, word(job, 2, 10, ReportedBy::Owner, None));
    let first = world.run(BOB, word(job, 1, 130, ReportedBy::Whole, blob(1, 60)));
    assert!(matches!(first, Reply::Done { .. }), "{first:?}");
    let second = world.run(BOB, word(job, 2, 30, ReportedBy::Whole, blob(2, 1)));
    assert_eq!(second, refused(Refusal::Full(Resource::Addenda { limit: 1 })));
    // Another job has its own, but no room for a report of this size: its counts are taken all the
    // same.
    let (other, _) = given_up(&mut world, 2);
    let third = world.run(BOB, word(other, 1, 130, ReportedBy::Whole, blob(3, 60)));
    assert!(matches!(third, Reply::Done { .. }), "{third:?}");
    let known = world.state.job(other).unwrap().shard(&shard(other)).unwrap();
    let addendum = known.attempts[0].addendum.as_ref().unwrap();
    assert_eq!((addendum.counters.issued, addendum.result), (130, None));
    world.restart();
}
