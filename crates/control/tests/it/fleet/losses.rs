//! What a loss costs is counted: setups that run again, and load that nobody runs (R27).

use std::time::Duration;

use control::message::{EndReport, WorkerReport};
use control::owner::{Event, Manifest, OnWorkerLoss, Settings};
use fence::Attempt;
use ledger_state::{AttemptStatus, Counters, LapseProof, Outcome};
use schedule::Units;
use stats::DropCause;

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, part, worker};

const SECOND: Duration = Duration::from_secs(1);

fn times(world: &World, text: &str) -> usize {
    let timeline = &world.conclusion.as_ref().expect("a result").timeline;
    timeline.iter().filter(|note| note.text.contains(text)).count()
}

#[test]
fn a_setup_or_teardown_that_runs_again_is_in_the_timeline_also_of_a_later_owner() {
    for (shard, text) in [
        (0, "setup ran again: its worker was lost"),
        (1, "teardown ran again: its worker was lost"),
        (2, "setup of load ran again: its worker was lost"),
        (3, "teardown of load ran again: its worker was lost"),
    ] {
        for takeover in [false, true] {
            let mut load = part("load", 1, 3);
            (load.setup, load.teardown) = (true, true);
            let mut plan = manifest(vec![load]);
            (plan.setup, plan.teardown) = (true, true);
            let mut world = World::new(plan, &[1, 1, 1]);
            let slow = Behaviour { takes: Some(4 * SECOND), ..Behaviour::default() };
            world.behave(1, shard, &slow);
            world.own();
            world.until(|world| {
                let key = world.key(1, shard);
                world.workers.values().any(|model| model.starts.iter().any(|s| s.0 == key))
            });
            world.pass(SECOND);
            world.kill(world.place_of(1, shard).0 - worker(0).0);
            if takeover {
                let key = world.key(1, shard);
                world.until(|world| world.record().shard(&key).unwrap().attempts.len() == 2);
                world.pass(SECOND);
                world.kill_owner();
                world.pass(2 * SECOND);
                world.own();
            }
            assert_eq!(world.finish(), Outcome::Completed);
            assert_eq!(times(&world, text), 1, "{text}, takeover: {takeover}");
            assert_eq!(times(&world, "ran again"), 1);
        }
    }
}

/// A hundred iterations a second and shard, for 70 s: what the model engine does when nothing
/// happens.
fn counted(policy: OnWorkerLoss) -> Manifest {
    let mut load = part("load", 3, 70);
    load.units = Units::Shared { vus: 3, iterations: 21_000 };
    let mut plan = manifest(vec![load]);
    plan.policy.on_worker_loss = policy;
    plan
}

/// What all attempts have counted, and what the owner says that nobody has run.
fn run_and_unrun(world: &World, shard: u32) -> (u64, u64) {
    let key = world.key(0, shard);
    let known = world.record().shard(&key).expect("a shard");
    let ends = known.attempts.iter().filter_map(|one| one.end.as_ref());
    let run = ends.map(|end| end.counters.counted()).sum();
    let lost: u64 = world.lost.iter().filter(|((of, _), _)| *of == key).map(|(_, n)| *n).sum();
    let unrun = &world.conclusion.as_ref().expect("a result").unrun;
    let unrun: u64 = unrun.iter().filter(|one| one.shard == key).map(|one| one.count).sum();
    (run, lost + unrun)
}

#[test]
fn what_a_lost_shard_leaves_is_dropped_when_the_others_go_on_without_it() {
    let mut world = World::new(counted(OnWorkerLoss::Continue), &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    world.kill(world.place_of(0, 1).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Completed);
    for shard in 0..3 {
        let (run, unrun) = run_and_unrun(&world, shard);
        assert_eq!(run + unrun, 7_000, "shard {shard}: {run} run, {unrun} not");
        assert_eq!(unrun > 0, shard == 1);
    }
}

#[test]
fn what_a_shard_leaves_that_was_lost_too_often_is_dropped() {
    let mut world = World::new(counted(OnWorkerLoss::Rebalance), &[1, 1, 1, 1, 1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    for attempt in 1..=4 {
        world.until(|world| {
            let known = world.record().shard(&world.key(0, 1)).unwrap();
            known.attempts.len() == attempt && world.running() == 3
        });
        world.pass(2 * SECOND);
        world.kill(world.place_of(0, 1).0 - worker(0).0);
        world.until(|world| world.running() < 3);
    }
    world.finish();
    let (run, unrun) = run_and_unrun(&world, 1);
    assert_eq!(run + unrun, 7_000, "{run} run, {unrun} not");
    assert!(unrun > 4_000);
}

/// The same as arrivals.
fn at_a_rate(policy: OnWorkerLoss) -> Manifest {
    let mut plan = counted(policy);
    plan.workflows[0].units =
        Units::Arrivals { start: (300, SECOND), stages: vec![(300, SECOND, 70 * SECOND)] };
    plan
}

#[test]
fn arrivals_that_were_due_and_nobody_ran_are_dropped_up_to_the_end_of_the_load() {
    let plan = at_a_rate(OnWorkerLoss::Continue);
    for cancelled in [false, true] {
        let mut world = World::new(plan.clone(), &[1, 1, 1]);
        world.own();
        world.until(|world| world.running() == 3);
        let began = world.now;
        world.pass(7 * SECOND);
        world.kill(world.place_of(0, 1).0 - worker(0).0);
        world.pass(23 * SECOND);
        let at = world.now;
        if cancelled {
            world.cancel();
        }
        world.finish();
        let (run, unrun) = run_and_unrun(&world, 1);
        let due = if cancelled { at.since(began).as_millis() as u64 / 10 } else { 7_000 };
        assert!((run + unrun).abs_diff(due) <= 20, "{run} run and {unrun} not, of {due}");
    }
}

#[test]
fn a_new_owner_finds_the_same_to_be_missing() {
    let mut world = World::new(counted(OnWorkerLoss::Continue), &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    world.kill(world.place_of(0, 1).0 - worker(0).0);
    world.until(|world| world.conclusion.is_some());
    let before = world.conclusion.take().unwrap().unrun;
    world.kill_owner();
    world.pass(SECOND);
    world.own();
    if world.record().result.is_none() {
        world.finish();
        assert_eq!(world.conclusion.as_ref().unwrap().unrun, before);
    }
    assert_eq!(before.len(), 1);
}

#[test]
fn what_the_siblings_of_a_failed_shard_leave_was_stopped_and_not_out_of_time() {
    let mut world = World::new(counted(OnWorkerLoss::Fail), &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    world.kill(world.place_of(0, 1).0 - worker(0).0);
    world.finish();
    let unrun = &world.conclusion.as_ref().expect("a result").unrun;
    for one in unrun {
        let expected =
            if one.shard.shard == 1 { DropCause::WorkerLost } else { DropCause::Stopped };
        assert_eq!(one.cause, expected, "shard {}", one.shard);
    }
    assert!(unrun.iter().any(|one| one.shard.shard == 1), "{unrun:?}");
}

#[test]
fn a_job_that_must_fail_with_a_worker_ends_all_its_workflows() {
    let mut plan = counted(OnWorkerLoss::Fail);
    plan.workflows[0].vus_max = 1;
    plan.workflows.push(part("other", 1, 300));
    let mut world = World::new(plan, &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() >= 2);
    world.pass(3 * SECOND);
    let began = world.at();
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Failed);
    assert!(world.at() - began < 60 * SECOND, "the other workflow went on: {:?}", world.at());
}

/// The zero of the job's own clock is the beginning of its setup, for a later owner too: windows
/// and gaps are counted from it.
#[test]
fn a_takeover_does_not_move_the_zero_of_the_jobs_clock() {
    for at_once in [false, true] {
        let mut plan = manifest(vec![part("load", 1, 20)]);
        plan.setup = true;
        let mut world = World::new(plan, &[1]);
        let slow = Behaviour { takes: Some(5 * SECOND), ..Behaviour::default() };
        world.behave(1, 0, &slow);
        world.own();
        if at_once {
            world.pass(2 * SECOND);
        } else {
            world.until(|world| world.running() == 1);
            world.pass(3 * SECOND);
        }
        world.kill_owner();
        world.own();
        assert_eq!(world.finish(), Outcome::Completed);
        let conclusion = world.conclusion.as_ref().expect("a result");
        let load = conclusion.workflows[0].started - conclusion.began.expect("it has begun");
        assert!(load > 4 * SECOND, "the setup took 5 s and load began {load:?} after the zero");
    }
}

/// A worker that was taken for lost stops when it hears of that, and says so. What it leaves is
/// lost all the same.
#[test]
fn arrivals_of_a_worker_that_stopped_because_it_was_taken_for_lost_are_dropped() {
    let mut world = World::new(at_a_rate(OnWorkerLoss::Continue), &[1, 1, 1]);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    world.worker(world.place_of(0, 1).0 - worker(0).0).cut_off = true;
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    let counters = Counters { iterations: 700, begun: 701, ..Counters::default() };
    let stopped = last_word(&world, 1, AttemptStatus::Stopped, counters);
    world.give(Event::Reported(stopped));
    assert_eq!(world.finish(), Outcome::Completed);
    let (run, unrun) = run_and_unrun(&world, 1);
    assert!((run + unrun).abs_diff(7_000) <= 20, "{run} run and {unrun} not");
}

/// The other shards of a workflow that fails are stopped; what they had to run was planned as well.
#[test]
fn arrivals_of_a_workflow_that_fails_are_dropped_in_all_its_shards() {
    let settings = Settings { retries: 0, ..Settings::default() };
    let mut world = World::with(at_a_rate(OnWorkerLoss::Rebalance), &[1, 1, 1], settings, 1);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    world.kill(world.place_of(0, 1).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Failed);
    for shard in 0..3 {
        let (run, unrun) = run_and_unrun(&world, shard);
        assert!((run + unrun).abs_diff(7_000) <= 20, "shard {shard}: {run} run and {unrun} not");
    }
}

fn last_word(
    world: &World,
    attempt: u32,
    status: AttemptStatus,
    counters: Counters,
) -> WorkerReport {
    let shard = world.key(0, 1);
    let known = world.record().shard(&shard).unwrap();
    let record = &known.attempts[attempt as usize - 1];
    WorkerReport::Ended(Box::new(EndReport {
        shard,
        attempt: Attempt(attempt),
        worker: record.worker,
        boot: record.boot,
        status,
        error: None,
        counters,
        provided: std::collections::BTreeMap::new(),
        frames: 0,
        totals: Vec::new(),
        log: String::new(),
        certain: true,
        sent_until: None,
    }))
}

/// An attempt that joins the schedule passes over what was due before, also over what the one
/// before it has run. That one's word may come when the next has ended: nothing is dropped that was
/// run.
#[test]
fn arrivals_are_not_lost_before_it_is_known_who_has_run_them() {
    let mut world = World::new(at_a_rate(OnWorkerLoss::Rebalance), &[1, 1, 2]);
    world.mute = true;
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    let gone = world.place_of(0, 1).0 - worker(0).0;
    world.kill(gone);
    world.worker(gone).restart();
    let key = world.key(0, 1);
    world.until(|world| world.record().shard(&key).unwrap().attempts.len() == 2);
    world.until(|world| world.running() == 3);
    let after = world.record().shard(&key).unwrap().attempts[1].after;
    assert!(matches!(after, LapseProof::HigherBoot(_)), "{after:?}: nothing was sealed");
    let counters = |run, begun| Counters { iterations: run, begun, ..Counters::default() };
    let second = last_word(&world, 2, AttemptStatus::Completed, counters(5_000, 7_000));
    world.give(Event::Reported(second));
    world.pass(SECOND);
    assert_eq!(world.lost.get(&(key, Attempt(2))), None, "the first has not said what it has run");
    let first = last_word(&world, 1, AttemptStatus::Interrupted, counters(700, 700));
    world.give(Event::Reported(first));
    world.pass(SECOND);
    assert_eq!(world.lost.get(&(key, Attempt(1))), None);
    assert_eq!(world.lost.get(&(key, Attempt(2))), Some(&1_300));
}

/// A worker that is taken for lost may have come to its end, and have counted what it left. No
/// other attempt is started once its word is there, though the ledger does not have it yet.
#[test]
fn a_shard_whose_end_is_known_is_not_started_again() {
    let mut world = World::new(counted(OnWorkerLoss::Rebalance), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 3);
    world.pass(7 * SECOND);
    let key = world.key(0, 1);
    world.kill(world.place_of(0, 1).0 - worker(0).0);
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    let counters = Counters { iterations: 700, begun: 700, dropped: 6_300, ..Counters::default() };
    let completed = last_word(&world, 1, AttemptStatus::Completed, counters);
    world.give(Event::Reported(completed));
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.record().shard(&key).unwrap().attempts.len(), 1);
    assert_eq!(run_and_unrun(&world, 1), (7_000, 0));
}

/// Two workloads and two workers without a core to spare. A worker is cut off for a moment, and its
/// shard is taken from it; when it is back, its free core is used at once, although the shard was
/// lost there.
#[test]
fn a_shard_whose_worker_is_back_is_seated_there_again() {
    let mut world = World::new(manifest(vec![part("a", 1, 60), part("b", 1, 60)]), &[1, 1]);
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(3 * SECOND);
    let number = world.place_of(0, 0).0 - worker(0).0;
    world.worker(number).cut_off = true;
    world.until(|world| world.record().attempts().any(|one| one.revoked.is_some()));
    world.worker(number).cut_off = false;
    let back = world.now;
    world.until(|world| world.running() == 2);
    assert!(world.now.since(back) < 10 * SECOND, "{:?}", world.now.since(back));
    assert_eq!(world.place_of(0, 0), worker(number));
    assert_eq!(world.finish(), Outcome::Completed);
}

/// A worker's process is killed, and its next life says that the attempt ended under it, without
/// knowing when. Its owner dies before it has written anything else: the next one knows since when
/// load is missing.
#[test]
fn since_when_load_is_missing_survives_a_takeover_also_if_its_process_cannot_say() {
    let mut world = World::new(manifest(vec![part("load", 2, 40)]), &[1, 1]);
    world.forgetful = true;
    world.own();
    world.until(|world| world.running() == 2);
    world.pass(5 * SECOND);
    let (from, number) = (world.at(), world.place_of(0, 1).0 - worker(0).0);
    world.kill(number);
    let counters = Counters { issued: 50, begun: 50, ..Counters::default() };
    let word = last_word(&world, 1, AttemptStatus::Interrupted, counters);
    world.give(Event::Reported(word));
    world.until(|world| world.record().attempts().any(|one| one.end.is_some()));
    world.kill_owner();
    world.pass(2 * SECOND);
    world.worker(number).restart();
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    let timeline = &world.conclusion.as_ref().expect("a result").timeline;
    let gap = timeline.iter().find_map(|note| note.gap.as_ref()).expect("a gap");
    assert!(gap.from <= from && from - gap.from < SECOND, "{:?} of {from:?}", gap.from);
    assert!(gap.to - gap.from > 2 * SECOND && gap.worker == worker(number), "{gap:?}");
}
