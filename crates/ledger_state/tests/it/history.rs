//! What happened, for people and for watchers.

use fence::{Attempt, Epoch, GroupId, WorkflowNo};
use ledger_state::{
    AttemptStatus, Command, EventKind, LapseProof, Limits, Outcome, Payload, Since,
};

use crate::world::{ALICE, GROUP, WORKER, World, session};

/// LEDG-25, LEDG-26: a job's events in the order of the log, each with its epoch and its stamp.
#[test]
fn every_change_leaves_one_event() {
    let mut world = World::new();
    let (job, epoch) = world.owned(1);
    world.start(job, epoch, 1, LapseProof::First);
    world.revoke(job, epoch, 1);
    world.end(job, 1, AttemptStatus::Stopped, 1);
    let context = Payload::Inline(vec![]);
    world.run(ALICE, Command::CommitContext { job, epoch, layer: 0, context });
    world.cancel(job);
    world.cancel(job);
    world.run(ALICE, Command::ReleaseJob { job, epoch });
    let epoch = world.claim(ALICE, job);
    world.finish(job, epoch, Outcome::Failed);
    world.finish(job, epoch, Outcome::Failed);

    let (workflow, shard, attempt) = (WorkflowNo(0), 0, Attempt(1));
    let status = AttemptStatus::Stopped;
    let owner = session(ALICE, 1);
    let expected = [
        EventKind::Created,
        EventKind::Claimed { owner },
        EventKind::AttemptStarted { workflow, shard, attempt, worker: WORKER },
        EventKind::AttemptRevoked { workflow, shard, attempt },
        EventKind::AttemptEnded { workflow, shard, attempt, status, superseded: false },
        EventKind::ContextCommitted { layer: 0 },
        EventKind::CancelRequested,
        EventKind::Released,
        EventKind::Claimed { owner },
        EventKind::Finished { outcome: Outcome::Cancelled },
    ];
    let history = world.state.history(job).unwrap();
    assert!(history.events().map(|event| event.kind).eq(expected));
    assert!(history.events().map(|event| event.epoch).is_sorted());
    assert!(history.events().all(|event| event.at.wall_ms >= 1_000));
    assert_eq!(history.dropped(), 0);
}

/// R10: a job's events are bounded: the first and the last are kept, and how many are missing is
/// known.
#[test]
fn a_long_history_keeps_its_ends() {
    let limits = Limits { history_first: 2, history_last: 3, ..Limits::default() };
    let mut world = World::with(limits);
    let job = world.job(1);
    let epochs: Vec<Epoch> = (0..10).map(|_| world.claim(ALICE, job)).collect();
    let history = world.state.history(job).unwrap();
    assert_eq!(history.dropped(), 6);
    let kept: Vec<Epoch> = history.events().map(|event| event.epoch).collect();
    assert_eq!(kept[1..], [epochs[0], epochs[7], epochs[8], epochs[9]]);
    assert_eq!(history.events().next().unwrap().kind, EventKind::Created);
}

/// P6: a watcher that goes on from what it saw gets everything once and in order, or is told that
/// something is missing.
#[test]
fn a_watcher_resumes_without_gap_or_repeat() {
    let mut world = World::with(Limits { recent_events: 20, ..Limits::default() });
    for n in 0..15 {
        world.job(n);
    }
    let mut seen = None;
    let mut count = 0;
    loop {
        let Since::Events(events) = world.state.events_since(seen, 4) else { panic!("no gap yet") };
        let Some((_, last)) = events.last() else { break };
        assert!(events.len() <= 4);
        assert!(seen < Some(events[0].1.epoch));
        seen = Some(last.epoch);
        count += events.len();
        world.restart();
    }
    assert_eq!(count, 15);
    for n in 15..35 {
        world.job(n);
    }
    let Since::Events(events) = world.state.events_since(seen, 100) else { panic!("just in time") };
    assert_eq!(events.len(), 20);
    world.job(35);
    assert_eq!(world.state.events_since(seen, 100), Since::Gap);
    assert_eq!(world.state.events_since(None, 100), Since::Gap);
    let foreign = Epoch { group: GroupId { cluster: 1, ..GROUP }, number: u64::MAX };
    assert_eq!(world.state.events_since(Some(foreign), 100), Since::Gap);
}

/// A retired job leaves an event, and the events of one command are not divided between two
/// answers.
#[test]
fn watchers_see_jobs_leave() {
    let mut world = World::new();
    for n in 0..3 {
        let (job, epoch) = world.owned(n);
        world.finish(job, epoch, Outcome::Completed);
    }
    world.wait(world.state.limits().committed_ttl_ms);
    let seen = Some(Epoch::at(GROUP, world.index, 0));
    world.wait(1);
    let Since::Events(events) = world.state.events_since(seen, 1) else { panic!() };
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|(_, event)| event.kind == EventKind::Retired));
}
