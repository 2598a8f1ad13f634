//! Random worlds: a network that loses, repeats and delays, a ledger whose answers are unknown,
//! workers and owners that die. Whatever happens, no shard runs twice at a time, and the job ends.

use std::time::Duration;

use control::owner::{OnWorkerLoss, Settings};
use ledger_state::Outcome;
use proptest::prelude::*;

use crate::fleet::world::{Faults, World, manifest, ms, part, worker};

#[derive(Clone, Debug)]
enum Blow {
    KillWorker(u8),
    RestartWorker(u8),
    CutOff(u8),
    Mend(u8),
    Suspect(u8),
    Drain(u8),
    KillOwner,
    LedgerDown,
    LedgerUp,
    Cancel,
    Threshold,
}

fn blow() -> impl Strategy<Value = Blow> {
    let one = 0..4u8;
    prop_oneof![
        3 => one.clone().prop_map(Blow::KillWorker),
        3 => one.clone().prop_map(Blow::RestartWorker),
        2 => one.clone().prop_map(Blow::CutOff),
        3 => one.clone().prop_map(Blow::Mend),
        2 => one.clone().prop_map(Blow::Suspect),
        1 => one.prop_map(Blow::Drain),
        3 => Just(Blow::KillOwner),
        1 => Just(Blow::LedgerDown),
        2 => Just(Blow::LedgerUp),
        1 => Just(Blow::Cancel),
        1 => Just(Blow::Threshold),
    ]
}

fn policy() -> impl Strategy<Value = OnWorkerLoss> {
    prop_oneof![
        3 => Just(OnWorkerLoss::Rebalance),
        1 => Just(OnWorkerLoss::Continue),
        1 => Just(OnWorkerLoss::Fail),
    ]
}

fn world(seed: u64, policy: OnWorkerLoss, faults: Faults) -> World {
    let mut second = part("second", 2, 3);
    (second.layer, second.depends_on) = (1, vec![0]);
    let mut first = part("first", 5, 8);
    first.setup = true;
    let mut plan = manifest(vec![first, part("side", 1, 2), second]);
    (plan.setup, plan.teardown) = (true, true);
    plan.policy.on_worker_loss = policy;
    let settings = Settings { ready_within: Duration::from_secs(10), ..Settings::default() };
    let mut world = World::with(plan, &[2, 2, 2, 2], settings, seed);
    world.faults = faults;
    world
}

fn strike(world: &mut World, blow: &Blow) {
    match *blow {
        Blow::KillWorker(n) => world.kill(u128::from(n)),
        Blow::RestartWorker(n) => {
            let model = world.worker(u128::from(n));
            if !model.alive {
                model.restart();
            }
        }
        Blow::CutOff(n) => {
            world.worker(u128::from(n)).cut_off = true;
            world.suspected.insert(worker(u128::from(n)));
        }
        Blow::Mend(n) => {
            world.worker(u128::from(n)).cut_off = false;
            world.suspected.remove(&worker(u128::from(n)));
        }
        Blow::Suspect(n) => {
            world.suspected.insert(worker(u128::from(n)));
        }
        Blow::Drain(n) => world.worker(u128::from(n)).draining = true,
        Blow::KillOwner => {
            world.kill_owner();
            world.pass(ms(300));
            if !world.ledger_down && world.record().end.is_none() {
                world.own();
            }
        }
        Blow::LedgerDown => world.ledger_down = true,
        Blow::LedgerUp => {
            world.ledger_down = false;
            if world.owner.is_none() && world.record().end.is_none() {
                world.own();
            }
        }
        Blow::Cancel => {
            if !world.ledger_down && world.record().end.is_none() {
                world.cancel();
            }
        }
        Blow::Threshold => {
            let reason = "errors".to_owned();
            world.give(control::owner::Event::Threshold { number: 0, reason });
        }
    }
}

fn mend_all(world: &mut World) {
    world.faults = Faults::default();
    world.ledger_down = false;
    world.suspected.clear();
    for model in world.workers.values_mut() {
        model.cut_off = false;
        model.draining = false;
        if !model.alive {
            model.restart();
        }
    }
    if world.owner.as_ref().is_none_or(|owner| owner.is_over()) && world.record().end.is_none() {
        world.own();
    }
}

/// A long hunt is `PROPTEST_CASES=20000 cargo test -p control --test it fleet::properties`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// P1, P5, EXEC-143, LIFE-30: blows at random times in a bad network.
    #[test]
    fn whatever_happens_nothing_runs_twice_and_the_job_ends(
        seed in any::<u64>(),
        policy in policy(),
        lost in 0..15usize,
        repeated in 0..20usize,
        unknown in 0..20usize,
        slow_ms in 0..60usize,
        blows in prop::collection::vec((blow(), 0..4_000u64), 0..12),
    ) {
        let mut world = world(seed, policy, Faults { lost, repeated, unknown, slow_ms });
        world.own();
        for (blow, wait) in &blows {
            world.pass(ms(*wait));
            strike(&mut world, blow);
            world.check_load();
        }
        mend_all(&mut world);
        let outcome = world.finish();
        prop_assert_eq!(world.owner.as_ref().map_or(0, |owner| owner.counts().illegal), 0);
        let cancelled = world.record().cancel.is_some();
        prop_assert_eq!(cancelled, outcome == Outcome::Cancelled);
    }

    /// Without blows, a bad network alone loses nothing and repeats nothing.
    #[test]
    fn a_bad_network_changes_no_result(
        seed in any::<u64>(),
        lost in 0..25usize,
        repeated in 0..30usize,
        unknown in 0..40usize,
        slow_ms in 0..150usize,
    ) {
        let mut world = world(seed, OnWorkerLoss::Rebalance, Faults { lost, repeated, unknown, slow_ms });
        world.own();
        prop_assert_eq!(world.finish(), Outcome::Completed);
    }
}

/// A wrongly suspected worker, and two owners that die: such a history once did not come to its
/// end.
#[test]
fn a_suspicion_and_two_takeovers() {
    let mut world = world(413_767_794_910_450_572, OnWorkerLoss::Continue, Faults::default());
    world.own();
    for (blow, wait) in
        [(Blow::Suspect(0), 3_201), (Blow::KillOwner, 1_801), (Blow::KillOwner, 3_710)]
    {
        world.pass(ms(wait));
        strike(&mut world, &blow);
        world.check_load();
    }
    mend_all(&mut world);
    world.finish();
    assert_eq!(world.owner.as_ref().map_or(0, |owner| owner.counts().illegal), 0);
}

/// A worker is cut off with an attempt that is ready, and the owner dies before its order to stop
/// arrives. That attempt never starts: it holds nothing up, and nothing of it runs at the end.
#[test]
fn a_ready_attempt_that_is_left_behind() {
    let faults = Faults { lost: 3, repeated: 9, unknown: 0, slow_ms: 0 };
    let mut world = world(5_807_001_894_368_334_366, OnWorkerLoss::Rebalance, faults);
    world.own();
    for (blow, wait) in
        [(Blow::LedgerDown, 3_801), (Blow::CutOff(0), 0), (Blow::LedgerUp, 0), (Blow::KillOwner, 1)]
    {
        world.pass(ms(wait));
        strike(&mut world, &blow);
        world.check_load();
    }
    mend_all(&mut world);
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A threshold breaks while a new owner still asks workers what they hold: such a stop was once
/// forgotten, and the job did not end.
#[test]
fn a_stop_in_the_middle_of_a_takeover() {
    let faults = Faults { lost: 13, repeated: 4, unknown: 12, slow_ms: 58 };
    let mut world = world(13_532_425_559_523_456_455, OnWorkerLoss::Continue, faults);
    world.own();
    for (blow, wait) in [(Blow::KillOwner, 3_737), (Blow::Threshold, 126)] {
        world.pass(ms(wait));
        strike(&mut world, &blow);
    }
    mend_all(&mut world);
    world.finish();
    let told = world.owner().timeline().iter().any(|note| note.text == "stopped: errors");
    assert!(told, "{:?}", world.owner().timeline());
}

/// A shard was given up by policy, its workflow counted as completed, and the next layer ran when
/// the job was cancelled and its owner died: the successor once took the first workflow for one
/// that had failed.
#[test]
fn what_was_given_up_before_a_cancel_stays_given_up() {
    let policy = OnWorkerLoss::Continue;
    let mut world = world(2_910_839_086_344_671_423, policy, Faults::default());
    world.own();
    for (blow, wait) in [
        (Blow::Suspect(2), 3_601),
        (Blow::Drain(0), 2_401),
        (Blow::KillWorker(1), 3_107),
        (Blow::Cancel, 5),
        (Blow::KillOwner, 0),
    ] {
        world.pass(ms(wait));
        strike(&mut world, &blow);
    }
    mend_all(&mut world);
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert_eq!(world.owner().counts().illegal, 0);
}
