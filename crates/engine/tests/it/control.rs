//! Steering and stopping: thresholds that abort, sliding windows, pause, resume, scale, stop. Each
//! deed is on record.

use crate::common;
use std::time::Duration;

use crate::common::{Run, Runner, target, url};
use engine::{Control, Controller};
use stats::{Outcome, StopReason, WorkflowStatus};
use target::RunningTarget;

const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a plan while `steer` does something to it from outside.
fn steered(
    target: &RunningTarget,
    cores: usize,
    plan: &str,
    steer: impl FnOnce(&Controller) + Send,
) -> Run {
    let (conductor, controller) = Runner::to(url(target)).cores(cores).start(plan);
    std::thread::scope(|scope| {
        let steering = scope.spawn(move || steer(&controller));
        let result = conductor.run(&mut |_| {}).expect("the run starts");
        steering.join().expect("what was tried worked");
        Run(result)
    })
}

/// Waits until the target has seen so many requests.
fn until_seen(target: &RunningTarget, count: u64) {
    let seen = common::eventually(|| target.counts().total, |total| *total >= count);
    assert!(seen >= count, "only {seen} of {count} requests came");
}

/// What the target has seen once nothing more comes for a while.
fn when_quiet(target: &RunningTarget) -> u64 {
    loop {
        let before = target.counts().total;
        std::thread::sleep(Duration::from_millis(100));
        if target.counts().total == before {
            return before;
        }
    }
}

fn plan(load: &str, steps: &str) -> String {
    common::plan(load, steps)
}

#[test]
fn a_pause_stands_still_and_the_schedule_goes_on_where_it_was() {
    let target = target();
    let (reached, resumed) = (std::sync::Mutex::new(0), std::sync::Mutex::new(0));
    let run = steered(&target, 2, &plan("rate: 200/s, duration: 800ms", "{ get: / }"), |control| {
        until_seen(&target, 20);
        control.ask(Control::Pause, PATIENCE).unwrap();
        assert!(control.ask(Control::Pause, PATIENCE).is_err(), "it is paused already");
        *reached.lock().unwrap() = when_quiet(&target);
        std::thread::sleep(Duration::from_millis(400));
        *resumed.lock().unwrap() = target.counts().total;
        control.ask(Control::Resume, PATIENCE).unwrap();
        assert!(control.ask(Control::Resume, PATIENCE).is_err(), "it runs");
    });
    assert_eq!(*reached.lock().unwrap(), *resumed.lock().unwrap(), "nothing happens in a pause");
    run.assert_clean().assert_seen_by(&target);
    assert_eq!(run.iterations().iterations, 160, "no arrival is lost or added");
    assert!(run.total().latency.max_ms() < 300.0, "a pause is nobody's latency");
    assert!(run.0.elapsed >= Duration::from_millis(1300), "{:?}", run.0.elapsed);
    assert!(run.says("paused") && run.says("resumed"), "{:?}", run.0.timeline);
}

#[test]
fn users_can_be_added_and_taken_away() {
    let target = target();
    let plan = plan("vus: 2, duration: 30s, graceful_stop: 5s", "{ get: /delay/10 }");
    let run = steered(&target, 2, &plan, |control| {
        until_seen(&target, 4);
        control.ask(Control::SetVus { workflow: None, vus: 9 }, PATIENCE).unwrap();
        let open = common::eventually(|| target.counts().connections_open, |open| *open == 9);
        assert_eq!(open, 9, "each user has its connection");
        control.ask(Control::SetVus { workflow: Some("w".into()), vus: 3 }, PATIENCE).unwrap();
        let open = common::eventually(|| target.counts().connections_open, |open| *open == 3);
        assert_eq!(open, 3, "and takes it with it");
        control.ask(Control::Scale(2.0), PATIENCE).unwrap();
        let open = common::eventually(|| target.counts().connections_open, |open| *open == 6);
        assert_eq!(open, 6);
        let unknown = Control::SetVus { workflow: Some("nobody".into()), vus: 1 };
        let answer = control.ask(unknown, PATIENCE).unwrap_err();
        assert!(answer.contains("there are: w"), "{answer}");
        control.ask(Control::Stop, PATIENCE).unwrap();
    });
    run.assert_seen_by(&target);
    assert!(run.0.workflows[0].vus_max >= 9, "{}", run.0.workflows[0].vus_max);
    assert!(run.says("virtual users set to 9") && run.says("scaled by 2"), "{:?}", run.0.timeline);
}

#[test]
fn a_rate_can_be_changed_and_shards_agree_from_when() {
    let target = target();
    let run = steered(&target, 3, &plan("rate: 30/s, duration: 1s", "{ get: / }"), |control| {
        until_seen(&target, 3);
        let rate = plan::Rate { events: 600, per: Duration::from_secs(1) };
        control.ask(Control::SetRate { workflow: None, rate }, PATIENCE).unwrap();
        let vus = Control::SetVus { workflow: None, vus: 5 };
        assert!(control.ask(vus, PATIENCE).is_err(), "an open model has no users to set");
    });
    run.assert_clean().assert_seen_by(&target);
    let iterations = run.iterations().iterations;
    assert!((200..=600).contains(&iterations), "{iterations} at 30/s, then 600/s");
    assert!(run.says("rate set to 600"), "{:?}", run.0.timeline);
}

#[test]
fn a_stop_lets_running_iterations_finish() {
    let target = target();
    let plan = plan("vus: 3, duration: 30s, graceful_stop: 10s", "{ get: /delay/300 }");
    let run = steered(&target, 2, &plan, |control| {
        until_seen(&target, 3);
        control.ask(Control::Stop, PATIENCE).unwrap();
    });
    run.assert_clean().assert_seen_by(&target);
    assert_eq!((run.iterations().iterations, run.iterations().interrupted), (3, 0));
    assert_eq!((run.0.outcome, run.0.stop.clone()), (Outcome::Cancelled, StopReason::Cancelled));
    assert_eq!(run.status("w"), &WorkflowStatus::Stopped);
    assert!(run.says("stop requested"), "{:?}", run.0.timeline);
}

/// Two interrupts at once, while a request hangs for twenty seconds.
fn interrupt_twice(plan: &str) {
    let target = target();
    let run = steered(&target, 2, plan, |control| {
        until_seen(&target, 1);
        control.ask(Control::Interrupt, PATIENCE).unwrap();
        // On a busy machine the run may be over before its answer to the second is read.
        let second = control.ask(Control::Interrupt, PATIENCE);
        assert!(second.is_ok() || second == Err("the run is over".to_owned()), "{second:?}");
    });
    assert!(run.0.elapsed < Duration::from_secs(3), "{:?}", run.0.elapsed);
    assert_eq!(run.0.stop, StopReason::Interrupted);
    assert!(run.total().interrupted > 0);
    run.assert_seen_by(&target);
}

#[test]
fn a_second_interrupt_does_not_wait_for_anything() {
    interrupt_twice(&plan("vus: 2, duration: 30s", "{ get: /delay/20000 }"));
}

#[test]
fn a_second_interrupt_does_not_wait_for_setup_either() {
    interrupt_twice(
        "target: TARGET
setup: [ { get: /delay/20000 } ]
workflows: [ { name: w, steps: [ { get: / } ] } ]
",
    );
}

#[test]
fn a_stop_in_a_pause_is_obeyed() {
    let target = target();
    let run = steered(&target, 2, &plan("vus: 2, duration: 30s", "{ get: /delay/5 }"), |control| {
        until_seen(&target, 2);
        control.ask(Control::Pause, PATIENCE).unwrap();
        control.ask(Control::Stop, PATIENCE).unwrap();
    });
    run.assert_seen_by(&target);
    assert!(run.0.elapsed < Duration::from_secs(3), "{:?}", run.0.elapsed);
}

#[test]
fn a_broken_threshold_stops_the_run() {
    let target = target();
    let plan = "target: TARGET
workflows: [ { name: w, load: { vus: 2, duration: 30s, graceful_stop: 1s }, steps: [ { get: /status/500 }, { think: 5ms } ] } ]
thresholds:
  - { metric: http_req_duration, hold: p(95) < 10s }
  - { metric: http_req_failed, hold: rate < 1%, abort: true }
";
    let run = Runner::to(url(&target)).run(plan);
    run.assert_seen_by(&target);
    assert!(run.0.elapsed < Duration::from_secs(4), "{:?}", run.0.elapsed);
    assert_eq!(run.0.stop, StopReason::Threshold(1));
    let held: Vec<_> = run.0.thresholds.iter().map(|threshold| threshold.ok).collect();
    assert_eq!(held, [true, false]);
    assert_eq!(run.0.thresholds[1].value, Some(1.0));
    assert!(run.says("threshold broken"), "{:?}", run.0.timeline);
}

#[test]
fn a_threshold_does_not_abort_before_its_time() {
    let target = target();
    let plan = "target: TARGET
workflows: [ { name: w, load: { vus: 1, duration: 1500ms, graceful_stop: 1s }, steps: [ { get: /status/500 }, { think: 5ms } ] } ]
thresholds: [ { metric: http_req_failed, hold: rate < 1%, abort: true, after: 10s } ]
";
    let run = Runner::to(url(&target)).run(plan);
    assert_eq!(run.0.stop, StopReason::Finished);
    assert!(!run.0.thresholds[0].ok, "it is broken all the same");
}

#[test]
fn a_sliding_window_sees_what_the_whole_run_hides() {
    let target = target();
    // One bad second among three: 1 of 3 over the run, all of them in the window.
    let plan = "target: TARGET
workflows:
  - { name: good, load: { rate: 50/s, duration: 1s }, steps: [ { get: / } ] }
  - { name: bad, depends_on: [good], load: { rate: 50/s, duration: 1100ms }, steps: [ { get: /status/500 } ] }
  - { name: good2, depends_on: [bad], load: { rate: 50/s, duration: 1s }, steps: [ { get: / } ] }
thresholds:
  - { metric: http_req_failed, hold: rate < 60% }
  - { metric: http_req_failed, hold: rate < 60%, over: 1s }
  - { metric: http_req_failed, workflow: good, hold: rate == 0% }
";
    let run = Runner::to(url(&target)).run(plan);
    let held: Vec<_> = run.0.thresholds.iter().map(|threshold| threshold.ok).collect();
    assert_eq!(held, [true, false, true], "{:?}", run.0.thresholds);
    assert!(run.0.thresholds[1].value.unwrap() > 0.8, "the worst window is shown");
}

#[test]
fn warm_up_has_a_stage_of_its_own_that_thresholds_can_leave_out() {
    let target = target();
    // Arrivals are 20 ms apart; the border lies between two of them.
    let plan = "target: TARGET
workflows: [ { name: w, load: { rate: 50/s, duration: 900ms, warmup: 290ms }, steps: [ { get: / } ] } ]
thresholds:
  - { metric: http_reqs, hold: count == 45 }
  - { metric: http_reqs, hold: count == 30, exclude: warmup }
  - { metric: http_reqs, hold: count == 15, stage: warmup }
";
    let run = Runner::to(url(&target)).run(plan);
    let values: Vec<_> = run.0.thresholds.iter().map(|threshold| threshold.value).collect();
    assert!(run.0.thresholds.iter().all(|threshold| threshold.ok), "{values:?}");
}
