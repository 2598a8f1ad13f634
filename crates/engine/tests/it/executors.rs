//! The six executors do what they say: users, iterations and arrivals to the number, over any
//! number of cores (EXEC-10, EXEC-11, EXEC-70, EXEC-72, R14, R16, R19).

use std::time::Duration;

use crate::common::recording::{Recording, ok};
use crate::common::{Runner, describe, plan, target, url};
use stats::{DropCause, VerdictState};
use target::{Latency, Stall, Target, TargetConfig};

const CORES: [usize; 3] = [1, 2, 3];

#[test]
fn constant_vus_keeps_its_users_busy_for_its_duration() {
    for cores in CORES {
        let target = target();
        let load = "vus: 7, duration: 400ms, graceful_stop: 5s";
        let run = Runner::to(url(&target)).cores(cores).run(&plan(load, "{ get: /delay/20 }"));
        run.assert_clean().assert_seen_by(&target);
        assert_eq!(run.0.workflows[0].vus_max, 7);
        assert_eq!(target.counts().connections, 7, "one connection per user");
        let iterations = run.iterations();
        assert_eq!(iterations.interrupted, 0, "running iterations may finish");
        // 7 users, 20 ms each, 400 ms: 140 at most, and one more each that began just before the
        // end.
        assert!((35..=147).contains(&iterations.iterations), "{}", iterations.iterations);
        assert!(run.0.elapsed >= Duration::from_millis(400), "{:?}", run.0.elapsed);
    }
}

#[test]
fn ramping_vus_reaches_each_stage_and_comes_down_again() {
    let target = target();
    let load = "executor: ramping-vus, start_vus: 1, stages: [ { to: 9, over: 300ms, name: up }, { to: 9, over: 200ms, name: hold }, { to: 0, over: 300ms, name: down } ]";
    let run = Runner::to(url(&target)).cores(2).run(&plan(load, "{ get: /delay/5 }"));
    run.assert_clean().assert_seen_by(&target);
    assert_eq!(run.0.workflows[0].vus_max, 9);
    let stages: Vec<_> = run.0.layout.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(stages[..5], ["setup", "teardown", "up", "hold", "down"]);
    let requests = |stage| stats::totals::stage_total(&run.0.totals, &run.0.layout, stage).requests;
    assert!((2..5).all(|stage| requests(stage) > 0), "each stage has its own counts");
    assert_eq!((2..5).map(requests).sum::<u64>(), run.total().requests);
}

#[test]
fn users_that_are_ramped_down_finish_their_iteration_or_are_cut_off_after_their_grace() {
    let target = target();
    let down = "executor: ramping-vus, start_vus: 4, stages: [ { to: 4, over: 100ms }, { to: 0, over: 10ms }, { to: 0, over: 600ms } ], graceful_stop: 0s";
    let graceful = format!("{down}, graceful_ramp_down: 5s");
    let run = Runner::to(url(&target)).run(&plan(&graceful, "{ get: /delay/300 }"));
    assert_eq!((run.iterations().iterations, run.iterations().interrupted), (4, 0));
    let hasty = format!("{down}, graceful_ramp_down: 50ms");
    let run = Runner::to(url(&target)).run(&plan(&hasty, "{ get: /delay/300 }"));
    assert_eq!((run.iterations().iterations, run.iterations().interrupted), (0, 4));
    assert_eq!(run.total().interrupted, 4);
}

#[test]
fn per_vu_iterations_are_exact_over_any_number_of_cores() {
    for cores in CORES {
        let target = target();
        let load = "executor: per-vu-iterations, vus: 5, iterations: 11";
        let steps = "{ get: '/echo?vu=${vu.id}' }";
        let run = Runner::to(url(&target)).cores(cores).run(&plan(load, steps));
        run.assert_clean().assert_seen_by(&target);
        assert_eq!(run.iterations().iterations, 55, "{cores} cores");
        assert_eq!(run.0.workflows[0].vus_max, 5);
    }
}

#[test]
fn every_user_does_its_own_number_of_iterations() {
    let server = Recording::start(|_| ok("hello"));
    let load = "executor: per-vu-iterations, vus: 5, iterations: 4";
    let steps = "{ get: '/${vu.id}/${vu.iteration}/${iteration}' }";
    Runner::to(server.url()).cores(3).run(&plan(load, steps)).assert_clean();
    let mut pairs = Vec::new();
    let mut numbers = Vec::new();
    for path in server.paths() {
        let parts: Vec<u64> = path[1..].split('/').map(|part| part.parse().unwrap()).collect();
        pairs.push((parts[0], parts[1]));
        numbers.push(parts[2]);
    }
    pairs.sort_unstable();
    let first = pairs[0].1;
    let wanted: Vec<_> = (1..=5).flat_map(|vu| (first..first + 4).map(move |i| (vu, i))).collect();
    assert_eq!(pairs, wanted);
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 20, "an iteration's number is its own, over all cores");
}

#[test]
fn shared_iterations_are_exact_over_any_number_of_cores() {
    for cores in CORES {
        for (vus, iterations) in [(4, 50), (3, 100), (7, 7), (5, 2)] {
            let target = target();
            let load = format!("vus: {vus}, iterations: {iterations}");
            let run = Runner::to(url(&target)).cores(cores).run(&plan(&load, "{ get: / }"));
            run.assert_clean().assert_seen_by(&target);
            assert_eq!(run.iterations().iterations, iterations, "{load} on {cores} cores");
        }
    }
}

#[test]
fn iterations_left_when_the_time_is_over_are_counted_with_their_cause() {
    for (load, planned) in [
        ("executor: shared-iterations, vus: 2, iterations: 1000", 1000),
        ("executor: per-vu-iterations, vus: 2, iterations: 300", 600),
    ] {
        let target = target();
        let load = format!("{load}, max_duration: 200ms, graceful_stop: 5s");
        let run = Runner::to(url(&target)).cores(2).run(&plan(&load, "{ get: /delay/10 }"));
        let iterations = run.iterations();
        let dropped = iterations.dropped[DropCause::TimeOver as usize];
        assert!(iterations.iterations > 0 && dropped > 0, "{load}");
        assert_eq!(iterations.iterations + iterations.interrupted + dropped, planned, "{load}");
    }
}

#[test]
fn arrivals_are_exact_over_any_number_of_cores() {
    for cores in CORES {
        for (load, arrivals) in [
            ("rate: 200/s, duration: 1s", 200),
            ("rate: 600/m, duration: 500ms", 5),
            // A straight line from 0 to 200 per second over half a second: half of the 100.
            ("stages: [ { to: 200/s, over: 500ms } ]", 50),
        ] {
            let target = target();
            let run = Runner::to(url(&target)).cores(cores).run(&plan(load, "{ get: / }"));
            run.assert_clean().assert_seen_by(&target);
            let started = run.iterations().iterations;
            assert_eq!(started, arrivals, "{load} on {cores} cores");
            assert_eq!(run.iterations().start_lag.count(), started);
        }
    }
}

#[test]
fn an_open_model_measures_from_the_intended_start() {
    let stall = Stall { at: Duration::from_millis(300), for_: Duration::from_millis(500) };
    let config = TargetConfig { stalls: vec![stall], ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let load = "rate: 200/s, duration: 1200ms";
    let run = Runner::to(url(&target)).run(&plan(load, "{ get: / }"));
    run.assert_clean().assert_seen_by(&target);
    let total = run.total();
    assert_eq!(total.completed, 240, "{}", describe(&total));
    assert!(total.latency.max_ms() >= 495.0, "max {}", total.latency.max_ms());
    // The stall is five twelfths of the run: each arrival in it waits for its end, evenly from 500
    // ms down to 0.
    let slow = total.latency.percentile_ms(80.0);
    assert!((150.0..450.0).contains(&slow), "p80 {slow}");
    assert!(total.latency.percentile_ms(40.0) < 100.0);
}

#[test]
fn start_lag_is_charged_to_the_latency_and_not_to_the_service_time() {
    let config =
        TargetConfig { latency: Latency::Fixed(Duration::from_millis(20)), ..Default::default() };
    let target = Target::start(config).unwrap();
    // The user's own setup takes 300 ms, and arrivals given to it wait for its end.
    let plan = "target: TARGET
workflows:
  - name: w
    load: { rate: 10/s, duration: 500ms, vus: 5, max_vus: 5 }
    vu_setup: [ { get: /delay/280 } ]
    steps: [ { name: s, get: / } ]
";
    let run = Runner::to(url(&target)).run(plan);
    let step = run.step("s");
    assert_eq!(step.completed, 5, "{}", describe(&step));
    assert!(step.latency.max_ms() >= 290.0, "latency {}", step.latency.max_ms());
    assert!(step.duration.max_ms() < 200.0, "service {}", step.duration.max_ms());
    assert_eq!(run.0.verdict.state, VerdictState::Degraded, "{:?}", run.0.verdict);
    assert!(run.0.verdict.reasons[0].contains("late"), "{:?}", run.0.verdict);
}

#[test]
fn arrivals_that_find_no_user_are_dropped_with_their_cause_and_spoil_the_verdict() {
    for cores in CORES {
        let target = target();
        let load = "rate: 100/s, duration: 500ms, vus: 3, max_vus: 3, graceful_stop: 5s";
        let run = Runner::to(url(&target)).cores(cores).run(&plan(load, "{ get: /delay/400 }"));
        let iterations = run.iterations();
        let dropped = iterations.dropped[DropCause::NoFreeVu as usize];
        assert_eq!(iterations.iterations + dropped, 50, "{cores} cores");
        assert!((3..=9).contains(&iterations.iterations), "{}", iterations.iterations);
        assert_eq!(run.0.workflows[0].vus_max, 3);
        assert_eq!(run.0.verdict.state, VerdictState::Invalid);
        assert!(run.0.verdict.reasons.iter().any(|reason| reason.contains("dropped")));
    }
}

#[test]
fn arrivals_are_accounted_for_even_where_no_user_gets_through_its_setup() {
    for vus in ["vus: 2, max_vus: 4", "vus: 2"] {
        let target = target();
        let plan = "target: TARGET
workflows:
  - name: w
    load: { rate: 100/s, duration: 300ms, VUS }
    vu_setup: [ { get: /status/500 } ]
    steps: [ { get: / } ]
";
        let run = Runner::to(url(&target)).run(&plan.replace("VUS", vus));
        let iterations = run.iterations();
        assert_eq!(iterations.iterations, 0);
        assert_eq!(iterations.dropped.iter().sum::<u64>(), 30, "{vus}: {:?}", iterations.dropped);
        run.assert_seen_by(&target);
    }
}

#[test]
fn a_workflow_waits_for_its_start() {
    let server = Recording::start(|_| ok("hello"));
    let begun = std::time::Instant::now();
    let load = "iterations: 1, start_after: 300ms";
    Runner::to(server.url()).run(&plan(load, "{ get: / }")).assert_clean();
    assert!(server.seen()[0].at - begun >= Duration::from_millis(300));
}

#[test]
fn pacing_runs_from_start_to_start_and_is_part_of_no_iteration() {
    let target = target();
    let load = "executor: per-vu-iterations, vus: 2, iterations: 4, pacing: 200ms";
    let run = Runner::to(url(&target)).run(&plan(load, "{ get: /delay/50 }"));
    run.assert_clean();
    // Three times 200 ms from the first start to the last, whose own 50 ms come after that.
    let elapsed = run.0.elapsed;
    assert!(elapsed >= Duration::from_millis(645), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(800), "waits for no iteration after the last");
    assert!(run.iterations().duration.max_ms() < 190.0);
}

#[test]
fn nobody_waits_for_the_pace_of_an_iteration_that_will_not_come() {
    let target = target();
    for load in ["vus: 2, duration: 200ms", "vus: 2, iterations: 4, max_duration: 300ms"] {
        let load = format!("{load}, pacing: 20s");
        let run = Runner::to(url(&target)).cores(2).run(&plan(&load, "{ get: / }"));
        assert!(run.iterations().iterations >= 2);
        assert!(run.0.elapsed < Duration::from_secs(2), "{load}: {:?}", run.0.elapsed);
    }
}

#[test]
fn think_time_is_waited_and_lies_within_its_bounds() {
    let server = Recording::start(|_| ok("hello"));
    let load = "executor: per-vu-iterations, vus: 1, iterations: 2";
    let steps = "{ get: / }, { think: 300ms..350ms }, { get: /after }";
    let run = Runner::to(server.url()).run(&plan(load, steps));
    run.assert_clean();
    for pair in server.seen().chunks(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(250), "{gap:?}");
    }
    assert!(run.step("GET /after").latency.max_ms() < 250.0, "thinking is nobody's latency");
    assert!(run.iterations().duration.min_ms() >= 300.0);
}

#[test]
fn an_iteration_that_does_nothing_does_not_hang_its_core() {
    let load = "vus: 3, duration: 200ms";
    let run = Runner::to("http://127.0.0.1:9").run(&plan(load, "{ set: { a: b } }"));
    assert!(run.iterations().iterations > 100);
    assert!(run.0.elapsed < Duration::from_millis(1300), "{:?}", run.0.elapsed);
}
