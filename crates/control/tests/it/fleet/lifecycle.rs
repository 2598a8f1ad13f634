//! The table of a shard's states, and stories about it; cancels; time-outs as the whole owner has
//! them.

use std::time::Duration;

use control::message::WorkerRequest;
use control::owner::{Event, ShardState};
use ledger_state::{Outcome, Phase};

use crate::fleet::worker::Behaviour;
use crate::fleet::world::{World, manifest, ms, part, worker};

use ShardState::{
    Cancelled, Cancelling, Completed, Dispatched, Failed, FailedTerminal, Pending, Running, Skipped,
};

/// LIFE-2, LIFE-4: the table, entry by entry; what is terminal stays.
#[test]
fn the_table_of_states() {
    let allowed = [
        (Pending, vec![Dispatched, Cancelled, Failed, Skipped]),
        (Dispatched, vec![Running, Completed, Cancelling, Failed]),
        (Running, vec![Completed, Cancelling, Failed]),
        (Failed, vec![Pending, Completed, FailedTerminal, Cancelled]),
        (Cancelling, vec![Cancelled]),
        (Completed, vec![]),
        (FailedTerminal, vec![]),
        (Cancelled, vec![]),
        (Skipped, vec![]),
    ];
    for (from, to) in allowed {
        for other in ShardState::ALL {
            assert_eq!(from.may_become(other), to.contains(&other), "{from} to {other}");
        }
        assert_eq!(from.is_terminal(), to.is_empty());
    }
}

/// LIFE-7: the history of a shard whose worker dies, with reasons.
#[test]
fn a_history_reads_like_what_happened() {
    let mut world = World::new(manifest(vec![part("load", 1, 20)]), &[1, 1]);
    world.own();
    world.until(|world| world.running() == 1);
    let first = world.place_of(0, 0);
    world.kill(first.0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Completed);
    let expected =
        ["DISPATCHED", "RUNNING", "FAILED", "PENDING", "DISPATCHED", "RUNNING", "COMPLETED"];
    assert_eq!(world.path(0, 0), expected);
    let history = world.owner().history();
    assert!(history.iter().all(|moved| !moved.reason.is_empty()));
    assert!(history.is_sorted_by_key(|moved| moved.at));
    let why = format!("worker {first} refuses connections, and is heard nowhere");
    assert_eq!(history[2].reason, why);
    assert_eq!((history[1].attempt.0, history[4].attempt.0), (1, 2));
    assert_eq!(world.owner().counts().illegal, 0);
}

/// A cancel and a dispatch race: never sent, or sent and stopped.
#[test]
fn cancel_and_dispatch_race() {
    for step in 0..60 {
        let mut world = World::new(manifest(vec![part("load", 2, 10)]), &[2]);
        world.own();
        for _ in 0..step {
            world.go_on();
        }
        if world.outcome.is_some() {
            break;
        }
        world.cancel();
        assert_eq!(world.finish(), Outcome::Cancelled);
        for dispatch in world.dispatched(0) {
            let order = dispatch.order;
            let stopped = |ask: &WorkerRequest| matches!(ask, WorkerRequest::Stop { order: o, .. } if o.shard == order.shard);
            assert!(world.asked(stopped) > 0, "at step {step}: {order:?} was not stopped");
        }
        for (_, state, _) in world.owner().shards() {
            assert_eq!(state, Cancelled, "at step {step}");
        }
    }
}

/// LIFE-30: the same death again, before, during and after: nothing happens a second time.
#[test]
fn a_death_is_handled_once() {
    let mut world = World::new(manifest(vec![part("load", 2, 30)]), &[1, 1, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    world.until(|world| world.running() < 2);
    for _ in 0..20 {
        let hints = world.hints();
        world.give(Event::Workers(hints));
        world.pass(ms(500));
    }
    assert_eq!(world.finish(), Outcome::Completed);
    let attempts = world.record().attempts().count();
    assert_eq!(attempts, 3);
    assert_eq!(world.owner().counts().lost_workers, 1);
}

/// A chain and a diamond over a lost worker: nothing below starts before the retry has completed,
/// each once.
#[test]
fn dependents_wait_for_a_retry() {
    let mut b = part("b", 1, 1);
    (b.layer, b.depends_on) = (1, vec![0, 1]);
    let mut c = part("c", 1, 1);
    (c.layer, c.depends_on) = (2, vec![2]);
    let workflows = vec![part("a", 1, 10), part("a2", 1, 10), b, c];
    let mut world = World::new(manifest(workflows), &[2, 2]);
    world.own();
    world.until(|world| world.running() == 2);
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Completed);
    for workflow in [2, 3] {
        assert_eq!(world.dispatched(workflow).len(), 1);
    }
    let ends: Vec<_> =
        world.conclusion.as_ref().unwrap().workflows.iter().map(|w| w.ended).collect();
    assert!(ends[0] < ends[2] && ends[1] < ends[2] && ends[2] < ends[3], "{ends:?}");
}

/// What is over stays over, whatever comes.
#[test]
fn late_events_do_nothing() {
    let mut world = World::new(manifest(vec![part("load", 1, 1)]), &[1]);
    world.own();
    world.until(|world| world.worker_report().is_some());
    let report = world.worker_report().unwrap();
    assert_eq!(world.finish(), Outcome::Completed);
    let before = world.owner().history().len();
    let (shard, attempt) = (world.key(0, 0), fence::Attempt(1));
    world.give(Event::Reported(control::message::WorkerReport::Ended(Box::new(report))));
    world.give(Event::Reported(control::message::WorkerReport::Ready { shard, attempt }));
    world.give(Event::Answered {
        tag: 3,
        answer: control::message::WorkerResponse::Done,
        took: ms(1),
    });
    world.give(Event::CancelSeen { reason: "late".to_owned(), hard: true, within: ms(0) });
    world.give(Event::Threshold { number: 0, reason: "late".to_owned() });
    assert_eq!(world.owner().history().len(), before);
    assert_eq!(world.record().phase(), Phase::Ended(Outcome::Completed));
    let unknown = fence::ShardKey { shard: 99, ..shard };
    assert_eq!(world.owner().shard(&unknown), None, "unknown is not PENDING");
}

/// A cancel with shards in every state; one of their workers dies meanwhile.
#[test]
fn a_cancel_ends_everything() {
    let mut later = part("later", 1, 1);
    (later.layer, later.depends_on) = (1, vec![0]);
    let mut world =
        World::new(manifest(vec![part("load", 4, 60), part("short", 1, 1), later]), &[3, 3]);
    world.behave(0, 0, &Behaviour { hangs: true, ..Behaviour::default() });
    world.own();
    world.until(|world| world.state_of(1, 0) == Some(Completed));
    world.cancel();
    world.until(|world| world.state_of(0, 0) == Some(Cancelling));
    world.kill(world.place_of(0, 0).0 - worker(0).0);
    assert_eq!(world.finish(), Outcome::Cancelled);
    assert_eq!(world.state_of(0, 0), Some(Cancelled));
    assert_eq!(world.state_of(1, 0), Some(Completed));
    assert!(world.dispatched(2).is_empty());
    assert!(world.record().attempts().count() <= 5, "none was started again");
}

/// A stop that a worker cannot carry out gracefully is forced; one that it does not answer ends
/// with its lease, and only then is the job over.
#[test]
fn a_stop_gets_harder() {
    let mut world = World::new(manifest(vec![part("load", 1, 60)]), &[1]);
    world.behave(0, 0, &Behaviour { hangs: true, ..Behaviour::default() });
    world.own();
    world.until(|world| world.running() == 1);
    world.cancel();
    assert_eq!(world.finish(), Outcome::Cancelled);
    let forced = |ask: &WorkerRequest| {
        matches!(ask, WorkerRequest::Stop { how: control::message::StopMode::Now, .. })
    };
    assert_eq!(world.asked(forced), 1);

    let mut world = World::new(manifest(vec![part("load", 1, 60)]), &[1]);
    world.own();
    world.until(|world| world.running() == 1);
    world.worker(0).cut_off = true;
    world.cancel();
    let cancelled = world.now;
    world.until(|world| matches!(world.record().phase(), Phase::Ended(_)));
    assert!(world.now.since(cancelled) >= world.settings.lease.wait());
    world.check_load();
}

/// The end overtakes the answer to the start.
#[test]
fn a_result_may_overtake_the_start() {
    let mut world = World::new(manifest(vec![part("load", 1, 0)]), &[1]);
    world.faults.slow_ms = 200;
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
    assert_eq!(world.owner().counts().illegal, 0);
}

/// LIFE-44: the job's time is over: TIMEOUT, everything stopped by force, the reason with the
/// numbers.
#[test]
fn a_job_times_out() {
    let mut plan = manifest(vec![part("load", 2, 600)]);
    plan.timeout = Some(Duration::from_secs(20));
    let mut world = World::new(plan, &[2]);
    world.own();
    assert_eq!(world.finish(), Outcome::Timeout);
    let detail = &world.record().end.as_ref().unwrap().detail;
    assert!(detail.starts_with("job timeout exceeded (20.0s > 20.0s, base=20.0s"), "{detail}");
    assert!(world.at() < Duration::from_secs(23));
    assert!(world.all_in(Cancelled));
}

/// Nothing moves for two minutes: stuck. A long steady run is not, and neither is a paused one.
#[test]
fn a_job_gets_stuck() {
    let mut world = World::new(manifest(vec![part("load", 1, 900)]), &[1]);
    world.behave(0, 0, &Behaviour { hangs: true, ..Behaviour::default() });
    world.own();
    world.until(|world| world.running() == 1);
    world.steer(control::message::Steer::Pause);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.running(), 1, "paused is not stuck");
    world.steer(control::message::Steer::Resume);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.running(), 1, "counts move");
    world.mute = true;
    assert_eq!(world.finish(), Outcome::Timeout);
    let detail = &world.record().end.as_ref().unwrap().detail;
    assert!(detail.starts_with("job stuck (no progress for 120."), "{detail}");
}

/// LIFE-77: more time is granted while there is progress, and a successor knows of it.
#[test]
fn more_time_is_granted_and_kept() {
    let mut plan = manifest(vec![part("load", 1, 40)]);
    plan.timeout = Some(Duration::from_secs(30));
    let mut world = World::new(plan, &[1]);
    world.own();
    world.until(|world| world.running() == 1);
    let more = control::message::WorkerReport::MoreTime {
        job: world.job,
        worker: worker(0),
        boot: fence::BootId(1),
        progress: 5,
    };
    world.give(Event::Reported(more));
    world.pass(ms(100));
    assert_eq!(world.record().extended_ms, 15_000);
    world.pass(ms(5_000));
    world.kill_owner();
    world.pass(ms(3_000));
    world.own();
    assert_eq!(world.finish(), Outcome::Completed);
}
