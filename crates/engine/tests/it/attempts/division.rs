//! The shards of a workflow are its load, exactly: arrivals, iterations, virtual users, rows,
//! requests.

use std::collections::BTreeSet;
use std::path::Path;

use stats::DropCause;

use super::{load, run_all, sum};
use crate::common::recording::{Recording, ok};
use crate::common::{eventually, plan, target, url};

const LOADS: [&str; 9] = [
    "vus: 5, duration: 300ms",
    "executor: ramping-vus, stages: [ { to: 7, over: 200ms }, { to: 0, over: 200ms } ]",
    "executor: per-vu-iterations, vus: 5, iterations: 7",
    "executor: per-vu-iterations, vus: 1, iterations: 3",
    "executor: shared-iterations, vus: 4, iterations: 53",
    "executor: shared-iterations, vus: 2, iterations: 9",
    "rate: 200/s, duration: 500ms, max_vus: 200",
    "rate: 7/s, duration: 400ms, max_vus: 200",
    "start_rate: 50/s, stages: [ { to: 300/s, over: 400ms } ], max_vus: 200",
];

/// R14: whatever the executor and the number of shards, the parts add up to the plan, and the
/// target sees what was sent.
#[test]
fn shards_add_up_to_the_plan() {
    for text in LOADS {
        for shards in [1, 2, 3] {
            let target = target();
            let loaded = load(&plan(text, "{ get: / }"), &url(&target), Path::new("."));
            let expected = schedule::expected_iterations(&loaded.definition().workflows[0].load);
            let vus = schedule::vus_max(&loaded.definition().workflows[0].load);
            let wholes = run_all(&loaded, shards);
            let begun = sum(&wholes, |one| {
                let iterations = one.iterations();
                iterations.iterations
                    + iterations.interrupted
                    + iterations.dropped.iter().sum::<u64>()
            });
            if let Some(expected) = expected {
                assert_eq!(begun, expected, "{text} in {shards}");
                let taken = sum(&wholes, |one| one.last.as_ref().unwrap().taken);
                assert_eq!(taken, expected, "{text} in {shards}: the cursors' sum");
            } else {
                let most = sum(&wholes, |one| one.end.vus_max);
                assert_eq!(most, u64::from(vus), "{text} in {shards}");
            }
            assert_eq!(sum(&wholes, |one| one.dropped(DropCause::WorkerLost)), 0);
            let sent = sum(&wholes, |one| one.total().sent);
            let seen = eventually(|| target.counts().total, |seen| *seen >= sent);
            assert_eq!(seen, sent, "{text} in {shards}");
        }
    }
}

/// Every number of an iteration belongs to one shard, so that rows by number and `${iteration}` are
/// unique.
#[test]
fn shards_number_their_iterations_apart() {
    for load_text in ["vus: 3, iterations: 12", "rate: 100/s, duration: 300ms, max_vus: 60"] {
        let server = Recording::start(|_| ok(""));
        let loaded =
            load(&plan(load_text, "{ get: '/${iteration}' }"), &server.url(), Path::new("."));
        let wholes = run_all(&loaded, 3);
        let sent = sum(&wholes, |one| one.total().sent);
        let paths = server.paths();
        let apart: BTreeSet<_> = paths.iter().collect();
        assert_eq!((paths.len() as u64, apart.len()), (sent, paths.len()), "{load_text}");
    }
}

/// The same load in attempts and under a conductor comes to the same counts.
#[test]
fn attempts_count_what_a_conductor_counts() {
    let text = plan(
        "executor: shared-iterations, vus: 3, iterations: 60",
        "{ get: / }, { get: /bytes/10 }",
    );
    let target = target();
    let local = crate::common::Runner::to(url(&target)).cores(2).run(&text);
    let wholes = run_all(&load(&text, &url(&target), Path::new(".")), 2);
    let (here, there) = (local.total(), sum(&wholes, |one| one.total().completed));
    assert_eq!(here.completed, there);
    assert_eq!(local.iterations().iterations, sum(&wholes, |one| one.iterations().iterations));
    let windows = sum(&wholes, |one| one.last.as_ref().unwrap().vus);
    assert_eq!(windows, 0, "nobody is alive after the end");
}
