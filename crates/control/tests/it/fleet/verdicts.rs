//! What a manager thinks of a worker decides where new work goes, and nothing else (ARCH-72,
//! ARCH-121, CORE-76, R6).

use std::time::Duration;

use control::message::WorkerRequest;
use control::owner::{Effect, Event};
use control::routing::Routing;
use ledger_state::Outcome;

use crate::fleet::world::{World, manifest, ms, part, worker};

/// Workers that are asked for cores or given attempts, from the effect with this number on.
fn given(world: &World, from: usize) -> Vec<u128> {
    let number = |effect: &Effect| match effect {
        Effect::Call {
            worker: to,
            request: WorkerRequest::Reserve { .. } | WorkerRequest::Dispatch(_),
            ..
        } => Some(to.0 - worker(0).0),
        _ => None,
    };
    world.done[from..].iter().filter_map(|(_, effect)| number(effect)).collect()
}

fn hooks(world: &World) -> bool {
    let told = |effect: &Effect| match effect {
        Effect::Queued(Some(queued)) => queued.why.contains("1 worker gets nothing new"),
        _ => false,
    };
    world.done.iter().any(|(_, effect)| told(effect))
}

/// ARCH-72: the odd one is asked only for what the others have no room for.
#[test]
fn an_odd_worker_is_asked_last() {
    let mut world = World::new(manifest(vec![part("load", 3, 5)]), &[4, 1, 2]);
    world.routings.insert(worker(0), Routing::Investigate);
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert!(!given(&world, 0).contains(&0), "{:?}", given(&world, 0));

    let mut world = World::new(manifest(vec![part("load", 4, 5)]), &[4, 1, 2]);
    world.routings.insert(worker(0), Routing::Investigate);
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    let on_odd = world.workers[&worker(0)].dispatches.len();
    assert_eq!(on_odd, 1, "three on the others, one here");
}

/// ARCH-136, CORE-76: nothing new for the drained and the evicted, not even a retry; the job says
/// that it waits for them, and goes on when they are well again.
#[test]
fn who_is_set_aside_gets_nothing_new() {
    for routing in [Routing::Drain, Routing::Evict] {
        let mut world = World::new(manifest(vec![part("load", 2, 40)]), &[1, 1, 1]);
        world.own();
        world.until(|world| world.running() == 2);
        let on = |shard| world.place_of(0, shard).0 - worker(0).0;
        let (first, second) = (on(0), on(1));
        let spare = (0..3).find(|w| *w != first && *w != second).unwrap();
        // The survivor as well, or the lost shard would share its core.
        for aside in [second, spare] {
            world.routings.insert(worker(aside), routing);
        }
        world.pass(ms(1_500));
        let from = world.done.len();
        world.kill(first);
        world.until(|world| world.running() == 1);
        world.pass(ms(15_000));
        assert_eq!(given(&world, from), [], "{routing:?}");
        assert_eq!(world.running(), 1, "what runs goes on");
        world.routings.remove(&worker(second));
        world.routings.remove(&worker(spare));
        assert_eq!(world.finish(), Outcome::Completed);
        assert_eq!(world.workers[&worker(spare)].dispatches.len(), 1);
    }
}

#[test]
fn a_job_that_waits_says_who_is_set_aside() {
    let mut world = World::new(manifest(vec![part("load", 2, 5)]), &[1, 2]);
    world.manifest.policy.cores_min = 2;
    world.routings.insert(worker(1), Routing::Drain);
    world.own();
    world.pass(ms(3_000));
    assert_eq!(world.running(), 0);
    assert!(hooks(&world));
    world.routings.clear();
    assert_eq!(world.finish(), Outcome::Completed);
}

/// R6: whatever is thought of the workers of a running job, nothing of it is stopped, revoked or
/// started again.
#[test]
fn a_verdict_touches_nothing_that_runs() {
    for routing in [Routing::Investigate, Routing::Drain, Routing::Evict] {
        let mut world = World::new(manifest(vec![part("load", 4, 30)]), &[2, 2, 4]);
        world.own();
        world.until(|world| world.running() == 4);
        for number in 0..3 {
            world.routings.insert(worker(number), routing);
        }
        assert_eq!(world.finish(), Outcome::Completed, "{routing:?}");
        let attempts =
            (0..4).map(|n| world.record().shard(&world.key(0, n)).unwrap().attempts.len());
        assert_eq!(attempts.collect::<Vec<_>>(), [1; 4]);
        let stops = world.done.iter().filter(|(_, effect)| {
            matches!(effect, Effect::Call { request: WorkerRequest::Stop { .. }, .. })
        });
        assert_eq!(stops.count(), 0);
    }
}

/// R6: an attempt that was committed and never arrived waits for its worker, and is not given up
/// for a verdict.
#[test]
fn an_attempt_waits_for_a_worker_that_is_set_aside() {
    let mut world = World::new(manifest(vec![part("load", 1, 5)]), &[1, 1]);
    world.own();
    world.until(|world| {
        world.done.iter().any(|(_, effect)| {
            matches!(effect, Effect::Call { request: WorkerRequest::Dispatch(_), .. })
        })
    });
    let placed = world.place_of(0, 0);
    // The owner dies with the dispatch on its lips.
    world.workers.get_mut(&placed).unwrap().cut_off = true;
    world.pass(ms(200));
    world.kill_owner();
    world.workers.get_mut(&placed).unwrap().cut_off = false;
    world.routings.insert(placed, Routing::Drain);
    world.own();
    world.pass(Duration::from_secs(20));
    let record = world.record().shard(&world.key(0, 0)).unwrap();
    assert_eq!((record.attempts.len(), record.attempts[0].revoked.is_some()), (1, false));
    assert_eq!(world.workers[&placed].dispatches.len(), 0);
    world.routings.clear();
    world.give(Event::Workers(world.hints()));
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.record().shard(&world.key(0, 0)).unwrap().attempts.len(), 1);
}

/// R14, ARCH-72: without a free core a lost shard shares one; with an odd worker only if there is
/// no other.
#[test]
fn a_lost_shard_shares_a_core_of_a_worker_that_is_well() {
    for all_are_odd in [false, true] {
        let mut world = World::new(manifest(vec![part("load", 3, 40)]), &[1, 1, 1]);
        world.own();
        world.until(|world| world.running() == 3);
        // The lower number would be taken if both were alike.
        world.routings.insert(worker(0), Routing::Investigate);
        if all_are_odd {
            world.routings.insert(worker(1), Routing::Investigate);
        }
        world.pass(ms(1_500));
        world.kill(2);
        world.until(|world| world.running() == 2);
        world.until(|world| world.running() == 3);
        let dispatches = |number| world.workers[&worker(number)].dispatches.len();
        let expected = if all_are_odd { (2, 1) } else { (1, 2) };
        assert_eq!((dispatches(0), dispatches(1)), expected);
        assert_eq!(world.finish(), Outcome::Completed);
    }
}

/// A full disk: jobs run on the other cores, and one that needs more is told the reason at once.
#[test]
fn a_job_that_waits_for_a_full_disk_says_so_at_once() {
    let mut world = World::new(manifest(vec![part("load", 2, 5)]), &[1, 2]);
    world.worker(0).disk_full = true;
    world.own();
    assert_eq!(world.finish(), Outcome::Completed, "two cores are enough");
    assert!(world.workers[&worker(0)].dispatches.is_empty());

    let mut world = World::new(manifest(vec![part("load", 3, 5)]), &[1, 2]);
    world.manifest.policy.cores_min = 3;
    world.worker(0).disk_full = true;
    world.own();
    world.pass(ms(1_000));
    assert_eq!(world.running(), 0);
    let why = &world.owner().queued().expect("it waits").why;
    assert!(why.contains("the disk of worker") && why.contains("is full"), "{why}");
    world.worker(0).disk_full = false;
    assert_eq!(world.finish(), Outcome::Completed);
}
