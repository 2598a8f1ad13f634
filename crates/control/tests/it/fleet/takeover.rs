//! Owners die and others go on: nothing is executed again, nothing is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{Steer, Steering, WorkerRequest};
use control::owner::{Effect, Event, Provided};
use ledger_state::{Command, Outcome, Reply};

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, ms, part, worker};

fn two_layers() -> World {
    let mut first = part("first", 3, 4);
    first.provide = vec![Provided { key: "t".into(), to: vec!["second".into()], collect: false }];
    let mut second = part("second", 2, 3);
    (second.layer, second.depends_on) = (1, vec![0]);
    second.uses = vec![("t".into(), vec!["first".into()])];
    let mut plan = manifest(vec![first, second]);
    (plan.setup, plan.teardown) = (true, true);
    let mut world = World::new(plan, &[2, 2]);
    let provided = BTreeMap::from([("t".to_owned(), b"v".to_vec())]);
    world.behave(0, 0, &Behaviour { provided, ..Behaviour::default() });
    world
}

/// EXEC-183: whenever the owner dies, at any step of the whole run, the next one ends the job, and
/// every shard runs exactly once.
#[test]
fn an_owner_may_die_at_any_moment() {
    let mut steps = 0;
    loop {
        let mut world = two_layers();
        world.own();
        let mut ended = false;
        for _ in 0..steps {
            world.go_on();
            ended |= world.record().end.is_some();
        }
        if ended {
            break;
        }
        world.kill_owner();
        world.pass(ms(700));
        if world.record().end.is_some() {
            // Its outcome was on its way into the ledger.
            break;
        }
        world.own();
        assert_eq!(world.finish(), Outcome::Completed, "killed after {steps} steps");
        let attempts = world.record().attempts().count();
        assert_eq!(attempts, 7, "killed after {steps} steps: nothing is executed again");
        let handed = world.owner().values()["first"]["t"].clone();
        assert_eq!(handed, b"v", "killed after {steps} steps");
        assert_eq!(world.owner().counts().illegal, 0);
        steps += if steps < 120 { 1 } else { 7 };
    }
    assert!(steps > 60, "{steps}");
}

/// A paused owner wakes up after another has taken over: its commits and its commands are refused,
/// and it says so.
#[test]
fn a_deposed_owner_does_nothing() {
    let mut world = World::new(manifest(vec![part("load", 2, 20)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    let mut old = world.owner.take().unwrap();
    world.own();
    world.until(|world| world.running() == 2);
    let effects = old.step(Event::Threshold { number: 0, reason: "x".to_owned() }, world.now);
    let Effect::Commit { tag, command } = &effects[0] else { panic!("{effects:?}") };
    let reply = world.run(command.clone());
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    let effects = old.step(Event::Committed { tag: *tag, reply }, world.now);
    assert!(matches!(effects[..], [Effect::Deposed { .. }]), "{effects:?}");
    assert!(old.is_over() && old.step(Event::Tick, world.now).is_empty());
    // And at the worker: the new owner's epoch is installed.
    let ask = WorkerRequest::Steer {
        job: world.job,
        epoch: old.epoch(),
        receiver: fence::BootId(1),
        steering: Steering { number: 9, steers: vec![Steer::Pause] },
    };
    let now = world.now;
    let answer = world.worker(0).ask(ask, now);
    assert!(matches!(answer, control::message::WorkerResponse::Refused(_)), "{answer:?}");
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A worker that does not answer the new owner is unknown, not free: its shard is not started
/// elsewhere; when it answers it is adopted.
#[test]
fn a_silent_worker_is_not_replaced() {
    let mut world = World::new(manifest(vec![part("load", 2, 30)]), &[1, 1, 4]);
    world.own();
    world.until(|world| world.running() == 2);
    let silent = world.place_of(0, 0).0 - worker(0).0;
    world.kill_owner();
    world.worker(silent).cut_off = true;
    world.own();
    world.pass(ms(2_000));
    world.worker(silent).cut_off = false;
    world.until(|world| world.running() == 2);
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.record().attempts().count(), 2);
}

/// Worker and owner die together: the successor waits for the lease from when it saw the revoke,
/// never shorter.
#[test]
fn worker_and_owner_die_together() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1, 4]);
    world.own();
    world.until(|world| world.running() == 2);
    let dead = world.place_of(0, 0).0 - worker(0).0;
    world.kill(dead);
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    world.kill_owner();
    world.pass(ms(5_000));
    let taken_up = world.now;
    world.own();
    world.until(|world| world.running() == 2);
    assert!(world.now.since(taken_up) >= world.settings.lease.wait());
    assert_eq!(world.finish(), Outcome::Completed);
    let mut again = world.workers.values().flat_map(|w| &w.starts).filter(|start| start.1.0 == 2);
    let (.., elapsed) = *again.next().unwrap();
    assert!(elapsed >= Duration::from_secs(12), "the schedule goes on: {elapsed:?}");
}

/// A threshold has stopped half of the job when the owner dies: the successor stops the rest, and
/// starts nothing again.
#[test]
fn a_stop_outlives_its_owner() {
    let mut world = World::new(manifest(vec![part("load", 4, 60)]), &[2, 2]);
    world.own();
    world.until(|world| world.running() == 4);
    world.give(Event::Threshold { number: 1, reason: "errors < 1 %".to_owned() });
    world.until(|world| world.record().attempts().any(|one| one.end.is_some()));
    world.kill_owner();
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.record().attempts().count(), 4);
    assert_eq!(world.conclusion.as_ref().unwrap().stop, stats::StopReason::Threshold(1));
}

/// A cancel outlives its owner too, and a pause is known to the next one.
#[test]
fn cancels_and_pauses_outlive_their_owner() {
    let mut world = World::new(manifest(vec![part("load", 2, 900)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.steer(Steer::Pause);
    world.pass(ms(100));
    world.kill_owner();
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.running(), 2, "paused is not stuck, for the successor either");
    world.kill_owner();
    let (reason, requestor) = ("enough".to_owned(), "eve".to_owned());
    let (nonce, grace) = ([1; 16], None);
    world.run(Command::CancelJob { job: world.job, reason, requestor, nonce, grace });
    world.own();
    assert_eq!(world.finish(), Outcome::Cancelled);
}

/// Accepted, claimed, and the owner dies before anything was started: the next one starts it.
#[test]
fn a_job_that_had_not_begun_begins() {
    let mut world = World::new(manifest(vec![part("load", 2, 2)]), &[2]);
    world.turn = false;
    world.own();
    world.pass(ms(1_000));
    assert!(world.owner().queued().unwrap().why.contains("older jobs"));
    world.kill_owner();
    world.turn = true;
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
}

/// All managers are gone for longer than a lease: attempts stop themselves, the job is still known,
/// and is run to its end by whoever comes next.
#[test]
fn nobody_renews_for_a_while() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.kill_owner();
    world.ledger_down = true;
    world.pass(Duration::from_secs(10));
    assert!(world.worker(0).runs.is_empty(), "they have stopped themselves");
    world.ledger_down = false;
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    world.check_load();
}

/// The owner led the ledger as well: until another does, its time stands still, and the load goes
/// on. The job is as long as it was.
#[test]
fn the_time_without_a_leader_counts() {
    let mut world = World::new(manifest(vec![part("load", 2, 20)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(5_000));
    world.kill_owner();
    world.leaderless = ms(3_000);
    world.pass(ms(4_000));
    world.own();
    world.until(|world| world.running() == 2);
    let progress = world.owner().progress_of(0, world.now);
    assert!((0.42..0.50).contains(&progress), "9 of 20 s: {progress}");
    assert_eq!(world.finish(), Outcome::Completed);
    let end = world.conclusion.as_ref().unwrap();
    let took = end.ended - end.began.unwrap();
    assert!((ms(19_900)..ms(21_000)).contains(&took), "{took:?}");
}

/// The stretches of missing load that a job's timeline tells of: from, to, in seconds.
fn gaps(world: &World) -> Vec<(f64, f64)> {
    let gaps = world.owner().timeline().iter().filter_map(|note| note.gap.as_ref());
    gaps.map(|gap| (gap.from.as_secs_f64(), gap.to.as_secs_f64())).collect()
}

/// R27: what makes a verdict is not lost with the owner that saw it. With its last checkpoint the
/// successor has it word by word; without, the ledger's entries show when load was missing.
#[test]
fn a_gap_outlives_the_owner_that_saw_it() {
    for forgetful in [false, true] {
        let mut world = World::new(manifest(vec![part("load", 2, 90)]), &[1, 1, 2]);
        world.forgetful = forgetful;
        world.own();
        world.until(|world| world.running() == 2);
        world.pass(ms(5_000));
        let dead = world.owner().worker_of(&world.key(0, 0)).unwrap();
        world.kill(dead.0 - 0x100);
        world.until(|world| world.running() < 2);
        world.until(|world| world.running() == 2);
        let seen = gaps(&world);
        assert_eq!(seen.len(), 1, "{:?}", world.owner().timeline());
        world.pass(ms(3_000));
        world.kill_owner();
        world.own();
        world.until(|world| world.running() == 2);
        let known = gaps(&world);
        assert_eq!(known.len(), 1, "{:?}", world.owner().timeline());
        // The ledger's time moves once a second.
        let (from, to) = (known[0].0 - seen[0].0, known[0].1 - seen[0].1);
        assert!(from.abs() < 0.2 && to.abs() < 1.5, "{known:?}, the owner before had {seen:?}");
        assert_eq!(world.finish(), Outcome::Completed);
        assert_eq!(gaps(&world).len(), 1, "once: {:?}", world.owner().timeline());
    }
}

/// The owner dies while it waits for a lost worker's lease: the gap begins when the load stopped,
/// not with its successor.
#[test]
fn a_gap_that_is_open_when_the_owner_dies_keeps_its_beginning() {
    let mut world = World::new(manifest(vec![part("load", 2, 90)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(5_000));
    let killed = world.owner().clock(world.now);
    let dead = world.owner().worker_of(&world.key(0, 0)).unwrap();
    world.kill(dead.0 - 0x100);
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    world.kill_owner();
    world.pass(ms(4_000));
    world.own();
    world.until(|world| world.running() == 2);
    let [(from, to)] = gaps(&world)[..] else { panic!("{:?}", world.owner().timeline()) };
    let began = world.conclusion.as_ref().and_then(|c| c.began).unwrap_or_default();
    let killed = (began + killed).as_secs_f64();
    assert!((from - killed).abs() < 1.0, "missing from {from} s on, killed at {killed} s");
    assert!(to - from >= world.settings.lease.wait().as_secs_f64(), "{from} to {to}");
}

/// Leases have lapsed while nobody led, and the next owner is told to cancel before the load is
/// back: that it was missing until then is told all the same.
#[test]
fn load_that_was_missing_when_a_cancel_came_is_told() {
    for later in [ms(0), ms(20), ms(200), ms(1_000)] {
        let mut world = World::new(manifest(vec![part("load", 2, 90)]), &[1, 1]);
        world.own();
        world.until(|world| world.running() == 2);
        world.pass(ms(5_000));
        world.kill_owner();
        (0..2).for_each(|number| world.worker(number).cut_off = true);
        world.pass(ms(9_000));
        (0..2).for_each(|number| world.worker(number).cut_off = false);
        world.own();
        world.pass(later);
        world.cancel();
        assert_eq!(world.finish(), Outcome::Cancelled);
        let told = gaps(&world);
        let missing: f64 = told.iter().map(|(from, to)| to - from).sum();
        assert!(missing > 2.0, "{later:?}: {told:?}: {:?}", world.owner().timeline());
    }
}

/// The owner dies between the entry that creates the next attempt and the moment at which that
/// runs. The entry alone does not end a gap: only the worker knows since when there is load again.
#[test]
fn a_gap_ends_when_the_next_attempt_runs_and_not_when_it_was_created() {
    for forgetful in [false, true] {
        let mut world = World::new(manifest(vec![part("load", 2, 90)]), &[1, 1, 2]);
        world.forgetful = forgetful;
        world.own();
        world.until(|world| world.running() == 2);
        world.pass(ms(5_000));
        let dead = world.owner().worker_of(&world.key(0, 0)).unwrap();
        world.kill(dead.0 - 0x100);
        world.until(|world| world.record().attempts().count() == 3);
        assert_eq!(world.running(), 1, "it is created, and does not run yet");
        world.kill_owner();
        world.pass(ms(6_000));
        world.own();
        world.until(|world| world.running() == 2);
        let runs = world.owner().clock(world.now);
        let began = world.conclusion.as_ref().and_then(|c| c.began).unwrap_or_default();
        let runs = (began + runs).as_secs_f64();
        // A third owner knows it from the worker alone, if the second has left nothing.
        for _ in 0..2 {
            let [(_, to)] = gaps(&world)[..] else { panic!("{:?}", world.owner().timeline()) };
            assert!((to - runs).abs() < 1.5, "missing until {to} s, and runs since {runs} s");
            world.pass(ms(3_000));
            world.kill_owner();
            world.own();
            world.until(|world| world.running() == 2);
        }
    }
}

/// What a worker says of its schedule may be anything: an owner that believed it would fall over at
/// every takeover.
#[test]
fn a_worker_that_claims_to_be_centuries_ahead_breaks_nothing() {
    let mut world = World::new(manifest(vec![part("load", 2, 20)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    for run in world.worker(0).runs.values_mut() {
        run.elapsed = Duration::MAX / 2;
    }
    world.kill_owner();
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
}

/// Everything loses power at once: the gap begins with the last word that is known, although the
/// successor has never heard of the attempts itself.
#[test]
fn a_gap_is_told_when_workers_and_owner_die_together() {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(ms(5_000));
    let killed = world.owner().clock(world.now).as_secs_f64();
    world.kill_owner();
    world.kill(0);
    world.pass(ms(3_000));
    world.worker(0).restart();
    world.own();
    world.until(|world| world.running() == 2);
    let gaps = gaps(&world);
    assert_eq!(gaps.len(), 2, "{:?}", world.owner().timeline());
    for (from, to) in gaps {
        assert!((from - killed).abs() < 1.5 && to - from >= 2.5, "{from} to {to}, {killed}");
    }
    assert_eq!(world.finish(), Outcome::Completed);
}
