//! A rate that people change holds from one moment of the schedule on, for everybody who computes
//! it: shards, their next attempts, the next owner, and the one who counts what nobody has run
//! (R5a, R27).

use std::collections::BTreeSet;
use std::time::Duration;

use control::message::Steer;
use control::owner::{Effect, Manifest};
use fence::WorkflowNo;
use ledger_state::Outcome;
use schedule::{Arrivals, Units, rate_per_second};

use crate::fleet::world::{World, manifest, ms, part, worker};

const SECOND: Duration = Duration::from_secs(1);

/// 60 arrivals a second for so long, on two cores.
fn at_a_rate(seconds: u32) -> Manifest {
    let mut load = part("load", 2, u64::from(seconds));
    load.is_open = true;
    load.units =
        Units::Arrivals { start: (60, SECOND), stages: vec![(60, SECOND, seconds * SECOND)] };
    manifest(vec![load])
}

fn running(seconds: u32, workers: &[u32]) -> World {
    let mut world = World::new(at_a_rate(seconds), workers);
    world.own();
    world.until(|world| world.running() == 2);
    world
}

fn scale(world: &mut World, per_second: f64) {
    let (workflow, from) = (WorkflowNo(0), Duration::ZERO);
    world.steer(Steer::Rate { workflow, per_second, from });
}

fn place(world: &World, shard: u32) -> u128 {
    world.place_of(0, shard).0 - worker(0).0
}

/// The schedule as the ledger has it.
fn schedule(world: &World) -> Arrivals {
    let changes = world.record().steering().steers.into_iter().filter_map(|steer| match steer {
        Steer::Rate { per_second, from, .. } => Some((rate_per_second(per_second), from)),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    world.manifest.workflows[0].units.arrivals().unwrap().with_rates(changes)
}

fn moments(world: &World) -> Vec<Duration> {
    let from = |steer: &Steer| match steer {
        Steer::Rate { from, .. } => Some(*from),
        _ => None,
    };
    world.record().steering().steers.iter().filter_map(from).collect()
}

/// What the job's attempts have run, and what the owner says was dropped with them.
fn run_and_dropped(world: &World) -> (u64, u64) {
    let ends = world.record().attempts().filter_map(|one| one.end.as_ref());
    let run = ends.map(|end| end.counters.counted()).sum();
    let unrun = &world.conclusion.as_ref().expect("a result").unrun;
    let unrun: u64 = unrun.iter().map(|one| one.count).sum();
    (run, world.lost.values().sum::<u64>() + unrun)
}

/// To the end: no arrival twice, none beyond the schedule, and what was planned is what was run and
/// what was dropped.
fn ends_well(world: &mut World) {
    assert_eq!(world.finish(), Outcome::Completed);
    let planned = schedule(world).total();
    let issued: Vec<u64> =
        world.workers.values().flat_map(|model| model.arrivals()).map(|(_, n)| n).collect();
    let numbers: BTreeSet<u64> = issued.iter().copied().collect();
    assert_eq!(numbers.len(), issued.len(), "no arrival is issued twice");
    assert!(numbers.last().is_none_or(|last| *last < planned), "{:?}", numbers.last());
    let (run, dropped) = run_and_dropped(world);
    assert_eq!(run + dropped, planned, "{run} run and {dropped} dropped");
}

#[test]
fn a_new_rate_holds_from_the_moment_at_which_it_was_set() {
    let mut world = running(22, &[1, 1]);
    world.pass(4 * SECOND);
    scale(&mut world, 120.0);
    ends_well(&mut world);
    let [from] = moments(&world)[..] else { panic!("{:?}", moments(&world)) };
    assert!(from.abs_diff(4 * SECOND) < ms(600), "{from:?}");
    let (run, dropped) = run_and_dropped(&world);
    let planned = 60.0 * from.as_secs_f64() + 120.0 * (22.0 - from.as_secs_f64());
    assert!((run as f64 - planned).abs() < 3.0 && dropped == 0, "{run} of {planned}");
}

#[test]
fn a_scaled_rate_survives_a_takeover_a_loss_and_a_second_change() {
    for (first, second) in [(120.0, 30.0), (20.0, 90.0), (20.0, 5.0), (240.0, 0.0)] {
        for takeover in [false, true] {
            let mut world = running(60, &[1, 1, 2]);
            world.pass(4 * SECOND);
            scale(&mut world, first);
            world.pass(2 * SECOND);
            if takeover {
                world.kill_owner();
                world.pass(2 * SECOND);
                world.own();
                world.pass(SECOND);
            }
            let lost = place(&world, 1);
            world.kill(lost);
            world.pass(6 * SECOND);
            scale(&mut world, second);
            ends_well(&mut world);
            assert_eq!(moments(&world).len(), 2);
            let (_, dropped) = run_and_dropped(&world);
            assert!(dropped > 0, "what the lost shard has missed");
        }
    }
}

#[test]
fn a_worker_that_has_not_heard_of_a_slower_rate_is_not_repeated_by_the_next_one() {
    for takeover in [false, true] {
        let mut world = running(60, &[1, 1, 2]);
        world.pass(4 * SECOND);
        // It goes on by the old rate until its lease ends, and nobody hears of it.
        let away = place(&world, 1);
        world.worker(away).cut_off = true;
        scale(&mut world, 10.0);
        world.pass(SECOND);
        if takeover {
            world.kill_owner();
            world.pass(2 * SECOND);
            world.own();
        }
        world.until(|world| world.record().attempts().count() == 3 && world.running() == 2);
        ends_well(&mut world);
    }
}

#[test]
fn who_hears_of_a_change_late_comes_to_the_same_numbers() {
    for per_second in [10.0, 180.0] {
        let mut world = running(40, &[1, 1]);
        world.pass(4 * SECOND);
        let away = place(&world, 1);
        world.worker(away).cut_off = true;
        scale(&mut world, per_second);
        // Not so long that it is taken for lost.
        world.pass(ms(1_000));
        world.worker(away).cut_off = false;
        ends_well(&mut world);
        assert_eq!(run_and_dropped(&world).1, 0, "nothing of it is lost");
    }
}

#[test]
fn a_rate_that_is_set_in_a_pause_holds_from_where_the_schedule_stands() {
    for takeover in [false, true] {
        let mut world = running(20, &[1, 1]);
        world.pass(4 * SECOND);
        world.steer(Steer::Pause);
        world.pass(5 * SECOND);
        if takeover {
            world.kill_owner();
            world.pass(2 * SECOND);
            world.own();
        }
        scale(&mut world, 120.0);
        world.pass(3 * SECOND);
        world.steer(Steer::Resume);
        ends_well(&mut world);
        let [from] = moments(&world)[..] else { panic!("{:?}", moments(&world)) };
        assert!(from.abs_diff(4 * SECOND) < ms(700), "{from:?}");
    }
}

#[test]
fn a_pause_that_a_lost_worker_has_not_heard_of_repeats_nothing() {
    let mut world = running(40, &[1, 1, 2]);
    world.pass(4 * SECOND);
    let away = place(&world, 1);
    world.worker(away).cut_off = true;
    world.steer(Steer::Pause);
    world.until(|world| world.record().attempts().count() == 3 && world.running() == 2);
    world.steer(Steer::Resume);
    ends_well(&mut world);
}

#[test]
fn a_change_that_comes_while_the_job_changes_hands_waits_until_its_time_is_known() {
    let mut world = running(30, &[1, 1]);
    world.pass(4 * SECOND);
    world.kill_owner();
    world.pass(2 * SECOND);
    world.own();
    scale(&mut world, 120.0);
    ends_well(&mut world);
    let [from] = moments(&world)[..] else { panic!("{:?}", moments(&world)) };
    assert!(from >= 6 * SECOND && from < 9 * SECOND, "{from:?}");
}

#[test]
fn a_rate_is_changed_so_often_and_no_more() {
    let mut world = running(60, &[1, 1]);
    for _ in 0..256 {
        scale(&mut world, 60.0);
        world.pass(ms(20));
    }
    let refusals = |world: &World| -> Vec<String> {
        let refused = world.done.iter().filter_map(|(_, effect)| match effect {
            Effect::Steered { result: Err(why), .. } => Some(why.clone()),
            _ => None,
        });
        refused.collect()
    };
    assert_eq!(refusals(&world), Vec::<String>::new());
    scale(&mut world, 61.0);
    world.pass(SECOND);
    assert_eq!(refusals(&world).len(), 1);
    assert!(refusals(&world)[0].contains("at most 256 times"), "{:?}", refusals(&world));
    // Pausing is possible all the same.
    world.steer(Steer::Pause);
    world.pass(SECOND);
    world.steer(Steer::Resume);
    ends_well(&mut world);
}
