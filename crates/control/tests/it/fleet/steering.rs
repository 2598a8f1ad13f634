//! Live control is durable, and reaches every shard or says which it did not.

use std::time::Duration;

use control::message::Steer;
use control::owner::Effect;
use fence::{ShardKey, WorkflowNo};
use ledger_state::Outcome;

use crate::fleet::world::{World, manifest, ms, part, worker};

const SECOND: Duration = Duration::from_secs(1);

fn paused(world: &World) -> usize {
    world.workers.values().filter(|model| model.is_paused() && !model.runs.is_empty()).count()
}

/// The answers to those who steered, oldest first.
fn answers(world: &World) -> Vec<Result<Vec<ShardKey>, String>> {
    let answers = world.done.iter().filter_map(|(_, effect)| match effect {
        Effect::Steered { result, .. } => Some(result.clone()),
        _ => None,
    });
    answers.collect()
}

fn two_workers() -> World {
    two_workers_with(6 * SECOND)
}

fn two_workers_with(lease: Duration) -> World {
    let mut world = World::new(manifest(vec![part("load", 2, 60)]), &[1, 1]);
    world.settings.lease = fence::LeaseTerms::new(lease);
    world.own();
    world.until(|world| world.running() == 2);
    world
}

#[test]
fn a_change_is_answered_when_every_worker_has_heard_it() {
    let mut world = two_workers();
    world.steer(Steer::Pause);
    world.until(|world| !answers(world).is_empty());
    assert_eq!(answers(&world), [Ok(Vec::new())]);
    assert_eq!(paused(&world), 2, "not one is missing when it is answered");
}

#[test]
fn who_was_not_reached_is_named_and_told_later() {
    // It is away for longer than somebody waits who steers, and not for so long that it is lost.
    let mut world = two_workers_with(15 * SECOND);
    world.steer(Steer::Pause);
    world.pass(SECOND);
    let away = world.place_of(0, 1).0 - worker(0).0;
    world.worker(away).cut_off = true;
    world.steer(Steer::Resume);
    let asked = world.now;
    world.until(|world| answers(world).len() == 2);
    assert_eq!(answers(&world)[1], Ok(vec![world.key(0, 1)]));
    assert!(world.now.since(asked) <= 4 * SECOND, "{:?}", world.now.since(asked));
    assert_eq!(paused(&world), 1);
    world.worker(away).cut_off = false;
    world.until(|world| paused(world) == 0);
    assert_eq!(world.finish(), Outcome::Completed);
}

#[test]
fn a_resume_right_after_a_takeover_reaches_every_shard() {
    let mut world = two_workers();
    world.steer(Steer::Pause);
    world.pass(2 * SECOND);
    world.kill_owner();
    world.pass(2 * SECOND);
    // A manager that has just started has heard of no worker yet.
    world.heard_of_nobody = true;
    world.own();
    world.heard_of_nobody = false;
    world.steer(Steer::Resume);
    world.until(|world| answers(world).len() == 2);
    assert_eq!(answers(&world)[1], Ok(Vec::new()));
    assert_eq!(paused(&world), 0, "a resume that was answered is in force everywhere");
    assert_eq!(world.finish(), Outcome::Completed);
    let timeline = &world.conclusion.as_ref().unwrap().timeline;
    let says = |text: &str| timeline.iter().filter(|note| note.text.starts_with(text)).count();
    assert_eq!((says("paused"), says("resumed after 4.")), (1, 1), "{timeline:?}");
}

#[test]
fn a_change_that_its_owner_could_not_send_comes_with_renewals_and_is_said_again_by_the_next() {
    for (first, then) in [(Steer::Pause, Steer::Resume), (Steer::Resume, Steer::Pause)] {
        let mut world = two_workers();
        world.steer(first);
        world.pass(SECOND);
        let wanted = if then == Steer::Pause { 2 } else { 0 };
        assert_ne!(paused(&world), wanted);
        world.steer(then.clone());
        // It is in the ledger, and its owner never hears so.
        world.until(|world| world.record().steering().steers.contains(&then));
        world.kill_owner();
        assert_ne!(paused(&world), wanted);
        for model in world.workers.values_mut() {
            model.cut_off = true;
        }
        world.pass(SECOND);
        assert_ne!(paused(&world), wanted);
        for model in world.workers.values_mut() {
            model.cut_off = false;
        }
        world.pass(2 * SECOND);
        assert_eq!(paused(&world), wanted, "without an owner");
        world.own();
        world.pass(SECOND);
        assert_eq!(paused(&world), wanted);
    }
}

#[test]
fn changes_of_different_kinds_do_not_displace_each_other_whatever_is_lost() {
    for seed in 1..20 {
        let settings = control::owner::Settings::default();
        let mut world = World::with(manifest(vec![part("load", 2, 200)]), &[1, 1], settings, seed);
        world.own();
        world.until(|world| world.running() == 2);
        world.faults.lost = 40;
        let vus = |vus| Steer::Vus { workflow: WorkflowNo(0), vus };
        for steer in [vus(7), Steer::Pause, vus(3), Steer::Resume, vus(9), Steer::Pause] {
            world.steer(steer);
        }
        world.pass(8 * SECOND);
        world.faults.lost = 0;
        world.pass(10 * SECOND);
        assert_eq!(world.record().steering().steers, [vus(9), Steer::Pause], "seed {seed}");
        for model in world.workers.values().filter(|model| !model.runs.is_empty()) {
            assert_eq!(model.steered, world.record().steering().steers, "seed {seed}");
        }
    }
}

#[test]
fn paused_time_is_no_time_of_the_schedule_across_takeovers() {
    // What runs says where the schedule is; or nobody does, and the ledger's time has to.
    for somebody_lives in [true, false] {
        let mut world = World::new(manifest(vec![part("load", 2, 100)]), &[1, 1, 2]);
        world.own();
        world.until(|world| world.running() == 2);
        let began = world.now;
        world.pass(5 * SECOND);
        world.steer(Steer::Pause);
        world.pass(20 * SECOND);
        let first = world.place_of(0, 0).0 - worker(0).0;
        let second = world.place_of(0, 1).0 - worker(0).0;
        world.kill_owner();
        if !somebody_lives {
            world.kill(first);
            if second != first {
                world.kill(second);
            }
        }
        world.pass(5 * SECOND);
        world.own();
        world.pass(10 * SECOND);
        world.steer(Steer::Resume);
        let resumed = world.now;
        world.pass(SECOND);
        if somebody_lives {
            world.kill(first);
        }
        world.until(|world| world.running() < 2 || world.record().attempts().count() > 2);
        world.until(|world| world.running() == 2);
        let place = world.place_of(0, 0).0 - worker(0).0;
        let (_, _, at, elapsed) = *world.worker(place).starts.last().unwrap();
        let load_time = at.since(began).saturating_sub(resumed.since(began)) + 5 * SECOND;
        let off = elapsed.abs_diff(load_time);
        assert!(
            off < ms(1_500),
            "at {elapsed:?} of {load_time:?}, somebody lives: {somebody_lives}"
        );
    }
}
