//! The three signals, verdicts and evictions, in tables and short histories.

use super::*;
use crate::heartbeat::tests::worker;

const NODE: NodeId = NodeId(1);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// CORE-74: each row of the matrix.
#[test]
fn the_decision_matrix() {
    use Progress::{Degraded, Idle, Normal, Slow, Stuck};
    for ready in [true, false] {
        for progress in [Idle, Normal, Slow, Degraded, Stuck] {
            assert_eq!(Verdict::of(false, ready, progress), Verdict::Suspect);
        }
        assert_eq!(Verdict::of(true, ready, Stuck), Verdict::Stuck);
    }
    assert_eq!(Verdict::of(true, true, Normal).action(), Action::Route);
    assert_eq!(Verdict::of(true, true, Idle).action(), Action::Route);
    assert_eq!(Verdict::of(true, false, Normal), Verdict::Busy);
    assert_eq!(Verdict::of(true, true, Slow).action(), Action::Investigate);
    assert_eq!(Verdict::of(true, false, Degraded), Verdict::Degraded);
    assert_eq!(Verdict::of(true, false, Slow).action(), Action::Drain);
    assert_eq!(Verdict::Stuck.action(), Action::DrainAndWatch);
}

/// CORE-67, CORE-68: alive by answers alone; a node without free cores is busy, not dead.
#[test]
fn liveness_does_not_depend_on_readiness() {
    let mut tracker = Tracker::default();
    tracker.beat(NODE, BootId(1), worker(1, 0, 1, 0), seconds(0));
    assert_eq!(tracker.assess(NODE, seconds(29)).map(|a| a.verdict), Some(Verdict::Busy));
    assert_eq!(tracker.assess(NODE, seconds(30)).map(|a| a.verdict), Some(Verdict::Suspect));
    tracker.answered(NODE, seconds(31));
    (0..3).for_each(|_| tracker.missed(NODE));
    assert_eq!(tracker.assess(NODE, seconds(32)).map(|a| a.live), Some(false));
    assert_eq!(tracker.history(NODE).count(), 2);
    assert_eq!(tracker.assess(NodeId(9), seconds(1)), None);
}

/// One long workflow is no standstill; stuck is two minutes of nothing with work and room for it.
#[test]
fn progress_is_measured_against_the_nodes_own_past() {
    let mut tracker = Tracker::default();
    let mut done = 0;
    let mut beat = |tracker: &mut Tracker, second: u64, more: u64, runnable: u32| {
        done += more;
        assert!(tracker.beat(
            NODE,
            BootId(1),
            worker(second + 1, done, runnable, 1),
            seconds(second)
        ));
        tracker.assess(NODE, seconds(second)).unwrap().progress
    };
    for second in (0..100).step_by(10) {
        assert_eq!(beat(&mut tracker, second, 100, 1), Progress::Normal);
    }
    assert_eq!(beat(&mut tracker, 100, 50, 1), Progress::Slow);
    assert_eq!(beat(&mut tracker, 110, 10, 1), Progress::Degraded);
    for second in (120..230).step_by(10) {
        assert_eq!(beat(&mut tracker, second, 0, 1), Progress::Slow, "{second}");
    }
    assert_eq!(beat(&mut tracker, 230, 0, 1), Progress::Stuck);
    assert_eq!(beat(&mut tracker, 240, 0, 0), Progress::Idle);
    assert_eq!(beat(&mut tracker, 250, 100, 1), Progress::Normal);
}

/// R21: half the work at the same pace each is no slowness; and intervals with more or less to do
/// are not compared with others.
#[test]
fn pace_is_measured_for_each_piece_of_work() {
    let mut tracker = Tracker::default();
    let (mut done, mut sequence) = (0, 0);
    let mut work = |tracker: &mut Tracker, second: u64, runnable: u32, each: u64| {
        done += each * u64::from(runnable);
        sequence += 1;
        tracker.beat(NODE, BootId(1), worker(sequence, done, runnable, 1), seconds(second));
        tracker.assess(NODE, seconds(second)).unwrap().progress
    };
    for second in (0..60).step_by(10) {
        assert_eq!(work(&mut tracker, second, 8, 100), Progress::Normal);
    }
    for second in (60..120).step_by(10) {
        assert_eq!(work(&mut tracker, second, 1, 100), Progress::Normal, "{second}");
    }
    assert_eq!(work(&mut tracker, 120, 1, 50), Progress::Slow);
    assert_eq!(work(&mut tracker, 130, 2, 50), Progress::Normal, "begun anew");
    assert_eq!(work(&mut tracker, 140, 2, 50), Progress::Slow);
}

/// In a large cluster heartbeats are minutes apart: their absence is no standstill.
#[test]
fn a_standstill_is_seen_and_not_guessed() {
    let mut tracker = Tracker::default();
    tracker.beat(NODE, BootId(1), worker(1, 100, 1, 1), seconds(0));
    tracker.answered(NODE, seconds(295));
    let progress = |tracker: &mut Tracker, second| {
        tracker.assess(NODE, seconds(second)).map(|assessment| assessment.progress)
    };
    assert_eq!(progress(&mut tracker, 300), Some(Progress::Normal));
    tracker.beat(NODE, BootId(1), worker(2, 100, 1, 1), seconds(300));
    assert_eq!(progress(&mut tracker, 300), Some(Progress::Stuck));
}

/// CORE-76, CORE-79: a node is to be evicted when it was stuck for its time, and no more once it
/// moves.
#[test]
fn who_is_stuck_for_too_long_is_evicted() {
    let mut tracker = Tracker::default();
    let mut judge = |second: u64, done: u64| {
        tracker.beat(NODE, BootId(1), worker(second + 1, done, 1, 1), seconds(second));
        let judged = tracker.judge(NODE, seconds(second)).unwrap();
        (judged.verdict, judged.evict)
    };
    assert_eq!(judge(0, 5), (Verdict::Healthy, false));
    assert_eq!(judge(120, 5), (Verdict::Stuck, false));
    assert_eq!(judge(179, 5), (Verdict::Stuck, false));
    assert_eq!(judge(180, 5), (Verdict::Stuck, true));
    assert!(!judge(181, 6).1);
}

/// Memory has a threshold, and another one to come back; the processor has none (R21).
#[test]
fn memory_runs_short_and_the_processor_may_be_busy() {
    let mut tracker = Tracker::default();
    let mut sequence = 0;
    let mut short = |memory_percent: u8| {
        sequence += 1;
        let mut beat = worker(sequence, 0, 0, 1);
        if let Beat::Worker(worker) = &mut beat.beat {
            (worker.cpu_percent, worker.memory_percent) = (100, memory_percent);
        }
        tracker.beat(NODE, BootId(1), beat, seconds(sequence));
        let assessment = tracker.assess(NODE, seconds(sequence)).unwrap();
        assert_eq!(assessment.verdict, Verdict::Healthy);
        assessment.short_of_memory
    };
    let percent = [94, 95, 90, 85, 84, 94, 100];
    assert_eq!(percent.map(&mut short), [false, true, true, true, false, false, true]);
}

/// What overtook is not rolled back, and a new boot counts again from one.
#[test]
fn heartbeats_out_of_order_are_dropped() {
    let mut tracker = Tracker::default();
    assert!(tracker.beat(NODE, BootId(1), worker(5, 0, 0, 1), seconds(1)));
    assert!(!tracker.beat(NODE, BootId(1), worker(4, 0, 0, 0), seconds(2)));
    assert!(!tracker.beat(NODE, BootId(1), worker(5, 0, 0, 0), seconds(2)));
    assert!(tracker.beat(NODE, BootId(2), worker(1, 0, 0, 0), seconds(3)));
    assert!(!tracker.beat(NODE, BootId(1), worker(9, 0, 0, 1), seconds(4)));
}

/// CORE-79: when most fail at once eviction is held, but not for ever, and never against
/// membership's word.
#[test]
fn eviction_is_held_when_most_fail_together() {
    let mut tracker = Tracker::default();
    for id in 1..=4 {
        tracker.beat(NodeId(id), BootId(1), worker(1, 0, 0, 1), seconds(0));
    }
    tracker.answered(NodeId(4), seconds(100));
    let assess_all = |tracker: &mut Tracker, second: u64| {
        tracker.answered(NodeId(4), seconds(second));
        for id in 1..=4 {
            let _ = tracker.assess(NodeId(id), seconds(second));
        }
    };
    assess_all(&mut tracker, 40);
    assert_eq!(tracker.eviction(NODE, seconds(40)), Eviction::No(Verdict::Suspect));
    assess_all(&mut tracker, 100);
    assert_eq!(tracker.eviction(NODE, seconds(100)), Eviction::Held { failing: 3, of: 4 });
    tracker.died(NodeId(2));
    assert_eq!(tracker.eviction(NodeId(2), seconds(100)), Eviction::Evict);
    tracker.remove(NodeId(2));
    assess_all(&mut tracker, 160);
    assert_eq!(tracker.eviction(NODE, seconds(160)), Eviction::Evict);
    assert_eq!(tracker.eviction(NodeId(4), seconds(160)), Eviction::No(Verdict::Healthy));
    assert_eq!(tracker.eviction(NodeId(9), seconds(160)), Eviction::Unknown);
    assert_eq!(tracker.healthy(seconds(160)), [NodeId(4)]);
}
