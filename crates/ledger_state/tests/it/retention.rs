//! How long keys are kept, and by which clock.

use fence::Hlc;
use ledger_state::{
    AttemptStatus, Command, CreateJob, LapseProof, Limits, Outcome, Phase, Proposal, Rejection,
    Reply, State, Submission,
};

use crate::world::{ALICE, BOB, GROUP, World, session, submission};

/// IDEM-49: settings with which a retry could run twice are refused at the start, and the message
/// says what to do.
#[test]
fn retention_must_exceed_twice_the_retry_window() {
    let limits =
        |ttl, retry| Limits { committed_ttl_ms: ttl, retry_window_ms: retry, ..Limits::default() };
    assert!(Limits::default().check().is_ok());
    assert!(limits(240_001, 120_000).check().is_ok());
    for (ttl, retry) in [(240_000, 120_000), (120_000, 120_000), (u64::MAX, u64::MAX)] {
        let error = limits(ttl, retry).check().unwrap_err().to_string();
        assert!(error.contains("committed_ttl_ms") && error.contains("raise"), "{error}");
    }
    assert!(Limits { jobs: 0, ..Limits::default() }.check().is_err());
    assert!(Limits { sessions: 9, session_records: 8, ..Limits::default() }.check().is_err());
}

/// The key of a job that runs for days is kept for days.
#[test]
fn an_active_job_keeps_its_key() {
    let mut world = World::new();
    let job = world.job(1);
    world.wait(3 * 24 * 3_600_000);
    assert!(matches!(
        world.submit(submission(1)),
        Submission::Accepted { job: told, duplicate: true, .. } if told == job
    ));
}

/// IDEM-19, IDEM-53: an ended job's key is kept to the last millisecond, then it is free.
#[test]
fn a_key_is_kept_for_its_time_after_the_end() {
    let mut world = World::new();
    let ttl = world.state.limits().committed_ttl_ms;
    let (job, epoch) = world.owned(1);
    world.wait(ttl * 2);
    world.finish(job, epoch, Outcome::Completed);
    world.wait(ttl);
    assert!(matches!(world.submit(submission(1)), Submission::Accepted { duplicate: true, .. }));
    world.wait(1);
    assert!(world.state.job(job).is_none());
    assert!(matches!(
        world.submit(submission(1)),
        Submission::Accepted { job: told, duplicate: false, .. } if told == job
    ));
}

/// A retry that comes too late to tell is not run; one that is known is answered at any age.
#[test]
fn a_retry_from_before_the_retention_is_not_run() {
    let mut world = World::new();
    let retention_ms = world.state.limits().committed_ttl_ms;
    let late = |age_ms| CreateJob { age_ms, ..submission(1) };
    let age_ms = retention_ms + 1;
    let refused = Submission::Rejected(Rejection::TooLate { age_ms, retention_ms });
    assert_eq!(world.submit(late(age_ms)), refused);
    assert!(matches!(
        world.submit(late(retention_ms)),
        Submission::Accepted { duplicate: false, .. }
    ));
    assert!(matches!(world.submit(late(age_ms)), Submission::Accepted { duplicate: true, .. }));
}

/// Whatever age a client states, and whenever its job ended: a job that it can have created is
/// known, or the retry is too late.
#[test]
fn no_stated_age_runs_a_job_twice() {
    let ttl = 1_000;
    let limits = Limits { committed_ttl_ms: ttl, retry_window_ms: 400, ..Limits::default() };
    for ended_after in [0, 1, 500] {
        for age_ms in (0..=ttl * 2 + 600).step_by(50).chain([ttl, ttl + 1]) {
            let mut world = World::with(limits.clone());
            let (job, epoch) = world.owned(1);
            world.wait(ended_after);
            world.finish(job, epoch, Outcome::Completed);
            if let Some(rest) = age_ms.checked_sub(ended_after) {
                world.wait(rest);
                let answer = world.submit(CreateJob { age_ms, ..submission(1) });
                let twice = matches!(answer, Submission::Accepted { duplicate: false, .. });
                assert!(!twice, "ended after {ended_after}, age {age_ms}");
            }
        }
    }
}

/// R9: stamps an hour ahead or behind change no decision; only `Advance` moves time.
#[test]
fn a_clock_jump_makes_no_duplicate() {
    let run = |jump: &dyn Fn(u64) -> u64| {
        let mut world = World::new();
        let (job, epoch) = world.owned(1);
        world.finish(job, epoch, Outcome::Completed);
        let mut replies = Vec::new();
        for n in 0..20 {
            let mut proposal =
                world.proposal(session(BOB, 1), Command::CreateJob(Box::new(submission(n % 3))));
            proposal.at = Hlc { wall_ms: jump(n), ..proposal.at };
            replies.push(world.send(proposal));
        }
        (replies, world.state.jobs().len(), world.state.now_ms())
    };
    let hour = 3_600_000;
    let straight = run(&|n| 10 * hour + n);
    let jumping = run(&|n| 10 * hour + n + if n % 2 == 0 { hour } else { 0 } - n % 3 * hour);
    assert_eq!(straight, jumping);
}

/// Two leaders that overlap do not add up their measurements, and one command moves time by a
/// bounded step.
#[test]
fn time_is_not_counted_twice() {
    let mut world = World::new();
    let advance = |seen_ms, elapsed_ms| Command::Advance { seen_ms, elapsed_ms };
    let at = |now_ms| Reply::Advanced { now_ms, retired: 0 };
    assert_eq!(world.run(ALICE, advance(0, 1_000)), at(1_000));
    assert_eq!(world.run(BOB, advance(0, 1_000)), at(1_000), "the same second, measured twice");
    assert_eq!(world.run(BOB, advance(0, 10)), at(1_000), "time does not go back");
    assert_eq!(world.run(ALICE, advance(1_000, 500)), at(1_500));
    assert_eq!(world.run(ALICE, advance(u64::MAX, u64::MAX)), at(61_500), "at most a minute each");
}

/// However many jobs end together, one command retires a bounded number, and all go in the end.
#[test]
fn retirement_is_bounded_work() {
    let limits = Limits { retire_per_advance: 10, ..Limits::default() };
    let ttl = limits.committed_ttl_ms;
    let mut world = World::with(limits);
    for n in 0..50 {
        let (job, epoch) = world.owned(n);
        world.finish(job, epoch, Outcome::Completed);
    }
    world.wait(ttl);
    assert_eq!(world.state.jobs().len(), 50);
    let seen_ms = world.state.now_ms();
    let mut left = Vec::new();
    for elapsed_ms in 1..=6 {
        world.run(ALICE, Command::Advance { seen_ms, elapsed_ms });
        left.push(world.state.jobs().len());
    }
    // Ten by each advance, and four that each later command takes along.
    assert_eq!(left, [40, 26, 12, 0, 0, 0]);
}

/// LEDG-25, P3: applied one entry at a time, in larger ones, or with a restart between, the state
/// is the same.
#[test]
fn a_restart_in_the_middle_leaves_no_trace() {
    let history = |restart_at: Option<usize>| {
        let mut world = World::new();
        for n in 0..30 {
            if restart_at == Some(n as usize) {
                world.restart();
            }
            let (job, epoch) = world.owned(n);
            if n % 2 == 0 {
                world.finish(job, epoch, Outcome::Failed);
            }
            world.wait(30_000);
        }
        (world.state.digest(), world.state.encode())
    };
    let straight = history(None);
    for at in [0, 7, 29] {
        assert_eq!(history(Some(at)), straight);
    }
}

/// A state of another version, a cut one, and one with something behind it are refused by name.
#[test]
fn foreign_bytes_are_not_a_state() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    world.finish(job, epoch, Outcome::Partial);
    let bytes = world.state.encode();
    let error = |bytes: &[u8]| State::decode(bytes).unwrap_err().to_string();
    assert_eq!(error(&[]), "the ledger's state is empty");
    assert!(error(&[9, 0, 0]).contains("version 9"));
    for cut in 1..bytes.len() {
        assert!(State::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    assert!(error(&longer).contains("1 bytes follow"));
    // A flipped byte is the checksum's to find; here it must only not panic.
    for at in 0..bytes.len() {
        let mut bent = bytes.clone();
        bent[at] ^= 0x55;
        if let Ok(state) = State::decode(&bent) {
            let _ = state.check();
            let _ = state.clone().apply(u64::MAX >> 17, &[] as &[Proposal]);
        }
    }
    assert_eq!(State::decode(&State::new(GROUP, Limits::default()).encode()).unwrap().applied(), 0);
}

/// A rehearsal is a job that nobody runs: it has ended as it is created, is found by its key, and
/// leaves in time.
#[test]
fn a_rehearsal_ends_as_it_is_created_and_goes_in_time() {
    let mut world = World::new();
    let create = || CreateJob { rehearsal: true, ..submission(1) };
    let Submission::Accepted { job, duplicate: false, created } = world.submit(create()) else {
        panic!("not accepted")
    };
    assert_eq!(world.state.job(job).unwrap().phase(), Phase::Ended(Outcome::Completed));
    assert!(world.state.blobs_in_use().is_empty(), "nobody reads its plan");
    let again = Submission::Accepted { job, duplicate: true, created };
    assert_eq!(world.submit(create()), again);
}

const HOUR: u64 = 3_600_000;

/// People look at a result much later than a client asks again for its submission.
#[test]
fn an_ended_job_is_known_for_longer_than_its_key_is_needed() {
    let mut world = World::with(Limits { kept_ms: HOUR, ..Limits::default() });
    let (job, epoch) = world.owned(1);
    assert_eq!(world.state.active_jobs().count(), 1);
    world.finish(job, epoch, Outcome::Completed);
    assert_eq!(world.state.active_jobs().count(), 0);
    world.wait(HOUR);
    assert!(matches!(world.submit(submission(1)), Submission::Accepted { duplicate: true, .. }));
    world.restart();
    world.wait(1);
    assert!(world.state.job(job).is_none(), "its time is over");
}

/// What is new comes before what is only kept for people; what a client may still ask for comes
/// before both.
#[test]
fn old_jobs_make_room_for_new_ones_and_keys_do_not() {
    let mut world = World::with(Limits { jobs: 3, kept_ms: HOUR, ..Limits::default() });
    let ttl = world.state.limits().committed_ttl_ms;
    let ended: Vec<_> = (0..3)
        .map(|n| {
            let (job, epoch) = world.owned(n);
            world.finish(job, epoch, Outcome::Completed);
            world.wait(1);
            job
        })
        .collect();
    assert!(
        matches!(world.submit(submission(9)), Submission::RetryLater { .. }),
        "keys are needed"
    );
    let now_ms = world.state.now_ms();
    assert_eq!(
        world.run(ALICE, Command::MakeRoom { jobs: 9 }),
        Reply::Advanced { now_ms, retired: 0 }
    );
    assert!(!world.state.can_make_room());
    world.wait(ttl + 1);
    assert!(world.state.can_make_room());
    assert_eq!(world.state.jobs().len(), 3, "nobody needs the room");
    assert!(matches!(world.submit(submission(9)), Submission::Accepted { duplicate: false, .. }));
    let left = |world: &World| ended.iter().filter(|job| world.state.job(**job).is_some()).count();
    assert_eq!((left(&world), world.state.jobs().len()), (2, 3), "one has gone, and not more");
    let now_ms = world.state.now_ms();
    assert_eq!(
        world.run(ALICE, Command::MakeRoom { jobs: 1 }),
        Reply::Advanced { now_ms, retired: 1 },
        "the disk is full"
    );
    assert_eq!(left(&world), 1);
    // A first try that was longer ago than keys are needed might have been the one that is
    // forgotten.
    let late = CreateJob { age_ms: ttl + 1, ..submission(0) };
    assert!(world.state.job(ended[0]).is_none(), "it was the first to end");
    assert!(matches!(
        world.submit(late),
        Submission::Rejected(Rejection::TooLate { retention_ms, .. }) if retention_ms == ttl
    ));
}

/// Attempts of jobs that have ended do not keep a running one from its own.
#[test]
fn old_attempts_make_room_for_new_ones() {
    let mut world = World::with(Limits { attempts: 1, kept_ms: HOUR, ..Limits::default() });
    let (old, epoch) = world.owned(1);
    world.start(old, epoch, 1, LapseProof::First);
    world.end(old, 1, AttemptStatus::Completed, 5);
    world.finish(old, epoch, Outcome::Completed);
    let (new, epoch) = world.owned(2);
    assert!(matches!(world.start(new, epoch, 1, LapseProof::First), Reply::Refused(_)), "the key");
    world.wait(world.state.limits().committed_ttl_ms + 1);
    assert!(matches!(world.start(new, epoch, 1, LapseProof::First), Reply::Done { .. }));
    assert!(world.state.job(old).is_none());
}
