//! Random histories of two workers among faults.
//!
//! After every step at most one thread of a shard might send (P1), and when the faults end,
//! everything ends: no core is taken, no question is without an answer, no report is lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

mod world;

use world::World;

fn histories() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..300)
}

/// The histories below go everywhere; otherwise they would show nothing.
#[test]
fn the_histories_go_everywhere() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..150 {
        let history = histories().new_tree(&mut runner).expect("a history").current();
        let mut world = World::new();
        for op in history {
            world.act(op);
        }
        let mut add = |what, count| *seen.entry(what).or_default() += count;
        let now = world.sites.iter().map(|site| site.worker.counts());
        for counts in now.chain(world.counted.iter().copied()) {
            add("let in", counts.attempts_let_in);
            add("completed", counts.attempts_completed);
            add("interrupted", counts.attempts_interrupted);
            add("lapsed", counts.lapses);
            add("refused a renewal", counts.renewals_refused);
            add("superseded", counts.superseded);
            add("forced", counts.forced);
            add("killed", counts.kills);
            add("abandoned", counts.abandoned);
            add("recovered", counts.reports_recovered);
            add("told again", counts.tells_again);
            add("forgotten", counts.reports_forgotten);
            add("without a core", counts.refused_no_cores);
            add("holds of a replaced owner", counts.holds_superseded);
        }
        add("sent", world.sent.values().sum());
        add("second attempts", world.sent.keys().filter(|run| run.attempt.0 > 1).count() as u64);
    }
    let missing: Vec<_> = seen.iter().filter(|(_, count)| **count == 0).collect();
    assert!(missing.is_empty(), "never: {missing:?} of {seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// P1, W1 to W3, EXEC-133, ARCH-90: whatever happens, in whatever order.
    #[test]
    fn no_history_doubles_a_shard_leaks_a_core_or_loses_a_report(
        history in histories(),
    ) {
        let mut world = World::new();
        for op in history {
            world.act(op);
        }
        world.settle();
        for site in &world.sites {
            let figures = site.worker.figures();
            prop_assert_eq!((figures.cores_free, figures.shards), (2, 0));
            prop_assert!(site.worker.outbox().is_empty());
            prop_assert!(site.reports.is_empty() && site.issued.is_empty(), "files are left");
            prop_assert_eq!(site.worker.report_queue.len(), 0);
        }
        prop_assert!(world.open.is_empty(), "questions without an answer");
        for run in &world.owed {
            prop_assert!(world.ended.contains_key(run), "{} has no report", run);
        }
        for (run, sent) in &world.sent {
            let issued = world.ended.get(run).map_or(0, |report| report.counters.issued);
            prop_assert!(*sent <= issued, "{}: {} sent, {} issued", run, sent, issued);
        }
    }
}
