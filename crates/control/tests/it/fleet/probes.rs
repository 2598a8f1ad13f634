//! Workers that are asked back because nothing is heard of them (R26), and losses that prove false.

use std::time::Duration;

use control::owner::Effect;
use fence::NodeId;
use ledger_state::{Command, Outcome};

use crate::fleet::world::{World, counted_part, manifest, part, worker};

const SECOND: Duration = Duration::from_secs(1);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Three shards on as many workers, with one to spare, in the middle of their load.
fn running() -> World {
    let mut world = World::new(manifest(vec![part("load", 3, 60)]), &[1, 1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    // Gossip would notice as well; here it does not.
    world.pass(5 * SECOND);
    world
}

fn revokes(world: &World) -> Vec<(Duration, String)> {
    let revoke = |(at, effect): &(fence::Moment, Effect)| match effect {
        Effect::Commit { command: Command::RevokeAttempt { reason, .. }, .. } => {
            Some((world.now.since(*at), reason.clone()))
        }
        _ => None,
    };
    world.done.iter().filter_map(revoke).collect()
}

/// How long after `fault` the first attempt is revoked, and why; none if it is not within `most`.
fn revoked_after(
    world: &mut World,
    fault: impl FnOnce(&mut World),
    most: Duration,
) -> Option<(Duration, String)> {
    let began = world.now;
    let before = revokes(world).len();
    fault(world);
    world.until(|world| revokes(world).len() > before || world.now.since(began) >= most);
    let after = world.now.since(began);
    revokes(world).pop().filter(|_| revokes(world).len() > before).map(|(_, why)| (after, why))
}

fn victim(world: &World) -> NodeId {
    world.place_of(0, 1)
}

#[test]
fn a_worker_whose_machine_refuses_connections_is_lost_within_a_second_and_not_started_before_its_time()
 {
    let mut world = running();
    world.hints_every = 3_600 * SECOND;
    let killed = victim(&world);
    let kill = |world: &mut World| world.kill(killed.0 - worker(0).0);
    let (after, why) = revoked_after(&mut world, kill, 10 * SECOND).expect("a revoke");
    assert!(after <= SECOND, "{after:?}");
    assert!(why.contains("refuses connections"), "{why}");
    let began = world.now;
    world.until(|world| world.running() == 3);
    assert!(world.now.since(began) >= MS(7_500), "the wait of 1.25 L stays");
    assert_eq!(world.finish(), Outcome::Completed);
}

#[test]
fn a_worker_that_is_cut_off_is_lost_after_a_quarter_of_a_lease_of_asking() {
    let mut world = running();
    world.hints_every = 3_600 * SECOND;
    let cut = victim(&world);
    let cut = |world: &mut World| world.worker(cut.0 - worker(0).0).cut_off = true;
    let (after, why) = revoked_after(&mut world, cut, 10 * SECOND).expect("a revoke");
    assert!((MS(1_500)..=MS(2_500)).contains(&after), "{after:?}");
    assert!(why.contains("does not answer"), "{why}");
    assert_eq!(world.finish(), Outcome::Completed);
}

#[test]
fn a_pause_of_a_second_is_no_loss_and_teaches_patience() {
    let mut world = running();
    let number = victim(&world).0 - worker(0).0;
    for pause in [SECOND, MS(1_400), MS(2_800)] {
        let cut = |world: &mut World| world.worker(number).cut_off = true;
        assert_eq!(revoked_after(&mut world, cut, pause), None, "{pause:?}");
        world.worker(number).cut_off = false;
        world.pass(3 * SECOND);
    }
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(revokes(&world), []);
}

#[test]
fn one_refusal_is_not_enough() {
    let mut world = running();
    let node = victim(&world);
    for _ in 0..10 {
        // Until it is asked back and refused, and a moment longer.
        let asked = world.done.len();
        world.refuses.insert(node);
        world.until(|world| {
            let probe =
                |effect: &Effect| matches!(effect, Effect::Probe { worker, .. } if *worker == node);
            world.done[asked..].iter().any(|(_, effect)| probe(effect))
        });
        world.pass(MS(50));
        world.refuses.clear();
        world.pass(2 * SECOND);
    }
    assert_eq!(revokes(&world), []);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A firewall that refuses for a moment, again and again, more often than there are retries; with a
/// takeover between.
#[test]
fn a_worker_that_lived_costs_no_retry_whoever_owns_the_job() {
    let mut world = World::new(manifest(vec![counted_part("load", 3, 120)]), &[1, 1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    for round in 0..6 {
        world.until(|world| world.running() == 3);
        world.pass(2 * SECOND);
        let node = victim(&world);
        let refuse = |world: &mut World| world.refuses.extend([node]);
        let (after, _) = revoked_after(&mut world, refuse, 10 * SECOND).expect("a revoke");
        assert!(after <= SECOND, "{after:?}");
        world.refuses.clear();
        if round == 3 {
            world.kill_owner();
            world.pass(SECOND);
            world.own();
        }
        let began = world.now;
        world.until(|world| world.running() == 3);
        assert!(world.now.since(began) < 5 * SECOND, "its own word is enough: no wait");
    }
    assert_eq!(world.finish(), Outcome::Completed);
    let conclusion = world.conclusion.as_ref().expect("a result");
    assert_eq!(conclusion.workflows[0].retries, 0);
    let shard = world.record().shard(&world.key(0, 1)).expect("a shard");
    assert_eq!((shard.attempts.len(), shard.retries_used()), (7, 1));
}
