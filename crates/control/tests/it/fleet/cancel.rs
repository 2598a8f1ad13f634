//! R28: what a cancel leaves time for, in every phase of a job, with one owner or several or none.

use std::time::Duration;

use control::message::{StopMode, Task, WorkerRequest};
use control::owner::Manifest;
use fence::Moment;
use ledger_state::{AttemptStatus, Outcome, Phase, Reply};
use stats::StopReason;

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, ms, part, worker};

const SECOND: Duration = Duration::from_secs(1);

/// One workflow with a graceful stop of 20 s that it uses up, a setup, and a teardown of 3 s: of
/// the plan and its own.
fn plan() -> Manifest {
    let mut load = part("load", 2, 120);
    load.graceful_stop = 20 * SECOND;
    (load.setup, load.teardown) = (true, true);
    let mut plan = manifest(vec![load]);
    (plan.setup, plan.teardown) = (true, true);
    plan
}

/// Shards of the number after the last workflow: the plan's teardown, and the workflow's own.
const TEARDOWNS: [u32; 2] = [1, 3];

fn world() -> World {
    let mut world = World::new(plan(), &[2, 2]);
    for shard in 0..2 {
        world.behave(0, shard, &Behaviour { lingers: 18 * SECOND, ..Behaviour::default() });
    }
    for shard in TEARDOWNS {
        world.behave(1, shard, &Behaviour { takes: Some(3 * SECOND), ..Behaviour::default() });
    }
    world.own();
    world
}

fn runs_load(world: &World) -> bool {
    world.owner.is_some() && world.running() == 2 && world.state_of(0, 0).is_some()
}

/// When attempts of these shards generated load, or did their one thing: from and to, after the
/// beginning of time.
fn ran(world: &World, workflow: u32, shard: u32) -> Vec<(Moment, Moment)> {
    let key = world.key(workflow, shard);
    let all = world.workers.values().flat_map(|model| model.load(world.now));
    all.filter(|(of, ..)| *of == key).map(|(_, _, from, to)| (from, to)).collect()
}

fn ended(world: &World, workflow: u32, shard: u32) -> Option<AttemptStatus> {
    world.record().shard(&world.key(workflow, shard))?.status()
}

fn says(world: &World, text: &str) -> bool {
    let timeline = &world.conclusion.as_ref().expect("a result").timeline;
    timeline.iter().any(|note| note.text.contains(text))
}

fn was_cancelled(world: &World) {
    let conclusion = world.conclusion.as_ref().expect("a result");
    assert_eq!(conclusion.outcome, stats::Outcome::Cancelled);
    assert_eq!(conclusion.stop, StopReason::Cancelled);
    assert_eq!(world.record().phase(), Phase::Ended(Outcome::Cancelled));
}

#[test]
fn a_cancel_keeps_the_graceful_stop_and_both_teardowns() {
    let mut world = world();
    world.until(runs_load);
    world.pass(5 * SECOND);
    world.cancel();
    let cancelled = world.now;
    assert_eq!(world.finish(), Outcome::Cancelled);
    was_cancelled(&world);
    for shard in 0..2 {
        let (_, to) = ran(&world, 0, shard)[0];
        assert!(to.since(cancelled) >= 18 * SECOND, "cut off after {:?}", to.since(cancelled));
    }
    for shard in TEARDOWNS {
        assert_eq!(ended(&world, 1, shard), Some(AttemptStatus::Completed));
        let (from, to) = ran(&world, 1, shard)[0];
        assert!(to.since(from) >= 3 * SECOND, "a teardown was cut off");
    }
    let plans = ran(&world, 1, 1)[0].0;
    assert!(ran(&world, 1, 3)[0].1 <= plans, "the plan is torn down after its workflow");
    assert!(world.now.since(cancelled) < 30 * SECOND);
}

#[test]
fn nothing_but_a_teardown_starts_after_a_cancel() {
    let mut later = part("later", 1, 5);
    (later.layer, later.depends_on) = (1, vec![]);
    let mut plan = plan();
    plan.workflows.push(later);
    let mut world = World::new(plan, &[2, 2]);
    world.own();
    world.until(|world| world.state_of(0, 0).is_some() && world.running() == 2);
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    world.cancel();
    let at = world.record().cancel.as_ref().unwrap().epoch;
    assert_eq!(world.finish(), Outcome::Cancelled);
    for ((workflow, shard), known) in &world.record().shards {
        for one in known.attempts.iter().filter(|one| one.started > at) {
            let teardown = workflow.0 == 2 && shard % 2 == 1;
            assert!(teardown, "{}/{shard} was started after the cancel: {one:?}", workflow.0);
        }
    }
    assert!(world.dispatched(1).is_empty());
}

#[test]
fn a_cancel_while_a_teardown_runs_lets_it_end_and_the_outcome_is_cancelled() {
    for shard in TEARDOWNS {
        let mut world = World::new(plan(), &[2]);
        for part in 0..2 {
            let short = Behaviour { takes: Some(2 * SECOND), ..Behaviour::default() };
            world.behave(0, part, &short);
        }
        for shard in TEARDOWNS {
            let slow = Behaviour { takes: Some(10 * SECOND), ..Behaviour::default() };
            world.behave(1, shard, &slow);
        }
        world.own();
        world.until(|world| !ran(world, 1, shard).is_empty());
        world.cancel();
        assert_eq!(world.finish(), Outcome::Cancelled);
        was_cancelled(&world);
        for shard in TEARDOWNS {
            assert_eq!(ended(&world, 1, shard), Some(AttemptStatus::Completed), "shard {shard}");
        }
    }
}

#[test]
fn a_takeover_between_cancel_and_end_goes_on_where_it_was() {
    // In the graceful stop, in the workflow's own teardown, and in the plan's.
    for (at, shard) in [(ms(4_000), 0), (ms(19_500), 3), (ms(23_000), 1)] {
        let mut world = world();
        world.until(runs_load);
        world.cancel();
        let cancelled = world.now;
        world.pass(at);
        assert_eq!(ran(&world, u32::from(shard > 0), shard).len(), 1, "shard {shard} at {at:?}");
        world.kill_owner();
        world.pass(8 * SECOND);
        world.own();
        assert_eq!(world.finish(), Outcome::Cancelled);
        was_cancelled(&world);
        for shard in 0..2 {
            let (_, to) = ran(&world, 0, shard)[0];
            assert!(to.since(cancelled) >= 17 * SECOND, "cut off after {:?}", to.since(cancelled));
        }
        for shard in TEARDOWNS {
            assert_eq!(ran(&world, 1, shard).len(), 1, "torn down once");
            assert_eq!(ended(&world, 1, shard), Some(AttemptStatus::Completed), "at {at:?}");
        }
    }
}

#[test]
fn without_an_owner_leases_go_on_until_the_deadline_and_end_then() {
    let mut world = world();
    world.until(runs_load);
    world.kill_owner();
    world.cancel();
    let cancelled = world.now;
    // The graceful stop of 20 s, and 30 s for somebody to take the job up.
    world.pass(45 * SECOND);
    assert_eq!(world.workers.values().map(|model| model.runs.len()).sum::<usize>(), 2);
    world.pass(60 * SECOND);
    for shard in 0..2 {
        let (_, to) = ran(&world, 0, shard)[0];
        let went_on = to.since(cancelled);
        assert!(went_on >= 50 * SECOND && went_on <= 57 * SECOND, "{went_on:?}");
    }
    world.own();
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert_eq!(ended(&world, 1, 1), Some(AttemptStatus::Completed), "there was time for it");
}

#[test]
fn a_second_cancel_ends_everything_at_once() {
    // In the graceful stop, and in each teardown.
    for at in [ms(4_000), ms(19_500), ms(23_000)] {
        for hard_only in [false, true] {
            let mut world = world();
            world.until(runs_load);
            if hard_only {
                world.cancel_now();
            } else {
                assert!(matches!(world.cancel(), Reply::Done { .. }));
                world.pass(at);
                assert!(matches!(world.cancel(), Reply::Done { .. }));
                assert!(matches!(world.cancel(), Reply::Already { .. }), "harder there is not");
            }
            let asked = world.now;
            assert_eq!(world.finish(), Outcome::Cancelled);
            was_cancelled(&world);
            assert!(world.now.since(asked) < SECOND, "{:?}", world.now.since(asked));
            assert!(says(&world, "teardown not run") || says(&world, "cancelled again"));
            let forced =
                |ask: &WorkerRequest| matches!(ask, WorkerRequest::Stop { how: StopMode::Now, .. });
            assert!(world.asked(forced) > 0);
        }
    }
}

#[test]
fn a_hard_cancel_ends_leases_without_an_owner() {
    let mut world = world();
    world.until(runs_load);
    world.cancel();
    world.kill_owner();
    world.cancel_now();
    let asked = world.now;
    world.pass(20 * SECOND);
    for shard in 0..2 {
        let (_, to) = ran(&world, 0, shard)[0];
        assert!(to.since(asked) <= world.settings.lease.length(), "{:?}", to.since(asked));
    }
    world.own();
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert!(ran(&world, 1, 1).is_empty(), "no teardown after a hard cancel");
}

#[test]
fn a_repeated_message_is_no_second_cancel() {
    let mut world = world();
    world.until(runs_load);
    world.cancel();
    let before = world.record().cancel.clone();
    let again = ledger_state::Command::CancelJob {
        job: world.job,
        reason: "enough".to_owned(),
        requestor: "eve".to_owned(),
        nonce: before.as_ref().unwrap().nonce,
        grace: Some(world.manifest.grace(&world.settings)),
    };
    world.pass(SECOND);
    assert!(matches!(world.run(again), Reply::Already { .. }));
    assert_eq!(world.record().cancel, before);
}

#[test]
fn a_job_that_waits_for_cores_ends_at_once_and_tears_nothing_down() {
    let mut plan = plan();
    plan.policy.cores_min = 64;
    let mut world = World::new(plan, &[2]);
    world.own();
    world.pass(10 * SECOND);
    world.cancel();
    let asked = world.now;
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert!(world.now.since(asked) < SECOND);
    assert_eq!(world.record().attempts().count(), 0);
}

#[test]
fn a_cancel_in_setup_still_tears_down_with_what_the_setup_left() {
    let mut world = World::new(plan(), &[2]);
    let left = std::collections::BTreeMap::from([("order".to_owned(), b"17".to_vec())]);
    let slow = Behaviour { takes: Some(2 * SECOND), provided: left, ..Behaviour::default() };
    // It is told to end gracefully, and comes to its own end first.
    world.behave(1, 0, &Behaviour { lingers: 4 * SECOND, ..slow });
    world.own();
    world.until(|world| !ran(world, 1, 0).is_empty());
    world.cancel();
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert!(world.dispatched(0).is_empty());
    let teardown = world.dispatched(1).into_iter().find(|one| one.order.shard.shard == 1);
    let teardown = teardown.expect("a teardown");
    assert_eq!(teardown.task, Task::Teardown { of: None });
    let ledger_state::Payload::Inline(context) = &teardown.context else { panic!("inline") };
    let handed = control::owner::context::decode(context).unwrap();
    assert_eq!(handed.variables["order"], b"17");
}

#[test]
fn a_teardown_whose_worker_dies_after_a_cancel_is_run_elsewhere() {
    let mut world = world();
    world.until(runs_load);
    world.cancel();
    world.until(|world| !ran(world, 1, 1).is_empty());
    world.kill(world.place_of(1, 1).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert_eq!(ended(&world, 1, 1), Some(AttemptStatus::Completed));
    assert_eq!(world.record().shard(&world.key(1, 1)).unwrap().attempts.len(), 2);
}

#[test]
fn a_teardown_that_finds_no_core_does_not_outlive_the_deadline() {
    let mut world = world();
    world.until(runs_load);
    world.cancel();
    world.pass(10 * SECOND);
    for number in 0..2 {
        world.worker(number).draining = true;
    }
    let asked = world.now;
    assert_eq!(world.finish(), Outcome::Cancelled);
    was_cancelled(&world);
    let grace = world.manifest.grace(&world.settings);
    assert!(world.now.since(asked) <= ms(grace.teardown_ms), "{:?}", world.now.since(asked));
    assert!(says(&world, "the time to end after the cancel is over"));
}

#[test]
fn a_cancel_when_the_load_is_over_and_the_result_not_made_is_cancelled() {
    let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1]);
    world.own();
    world.until(|world| world.worker_report().is_some());
    // Step by step through the end: whenever the cancel is in the ledger before the outcome, the
    // outcome says so.
    for step in 0..400 {
        let mut world = World::new(manifest(vec![part("load", 1, 2)]), &[1]);
        world.own();
        world.until(|world| world.worker_report().is_some());
        for _ in 0..step {
            world.go_on();
        }
        if matches!(world.record().phase(), Phase::Ended(_)) {
            assert!(step > 4, "there is something to go through");
            let Reply::Ended { outcome, .. } = world.cancel() else { panic!("it had ended") };
            assert_eq!(outcome, Outcome::Completed);
            return;
        }
        let made = world.conclusion.is_some();
        world.cancel();
        assert_eq!(world.finish(), Outcome::Cancelled, "at step {step}");
        if !made {
            was_cancelled(&world);
        }
    }
    panic!("it never ends");
}
