//! Scenarios as scripts: `event => effects`.

use std::time::Duration;

use stats::{Outcome, StopReason, WorkflowState, WorkflowStatus};

use super::*;

/// `a b! c(a,b)`: workflows with dependencies, `!` for one that runs alone.
pub(super) fn shape(plan: &str, setup: bool, teardown: bool) -> Shape {
    let mut names: Vec<String> = Vec::new();
    let mut depends_on: Vec<Vec<usize>> = Vec::new();
    let mut layers: Vec<Vec<crate::allocation::NumberedWave>> = Vec::new();
    let mut layer_of: Vec<usize> = Vec::new();
    for word in plan.split_whitespace() {
        let (name, rest) = word.split_once('(').unwrap_or((word, ")"));
        let needed = rest.trim_end_matches(')').split(',').filter(|other| !other.is_empty());
        let find = |other: &str| names.iter().position(|name| name == other).expect("known");
        let needed: Vec<usize> = needed.map(find).collect();
        let layer = needed.iter().map(|&other| layer_of[other] + 1).max().unwrap_or(0);
        layers.resize(layers.len().max(layer + 1), vec![vec![]]);
        let seat = (names.len(), vec![names.len()]);
        match name.strip_suffix('!') {
            Some(_) => layers[layer].insert(0, vec![seat]),
            None => layers[layer].last_mut().unwrap().push(seat),
        }
        names.push(name.trim_end_matches('!').to_string());
        depends_on.push(needed);
        layer_of.push(layer);
    }
    Shape { names, depends_on, layers, setup, teardown }
}

fn event(job: &Job, text: &str) -> Event {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |name: &str| job.shape.names.iter().position(|n| n == name).expect("known");
    let result = |words: &[&str]| match words {
        ["ok"] => Ok(()),
        ["error", why] => Err(why.to_string()),
        other => panic!("unknown result {other:?}"),
    };
    match words[..] {
        ["start"] => Event::Started,
        ["setup", ref rest @ ..] => Event::SetupEnded(result(rest)),
        ["teardown", ref rest @ ..] => Event::TeardownEnded(result(rest)),
        ["deadline"] => Event::DeadlineReached,
        ["cancel"] => Event::StopRequested { reason: StopReason::Cancelled },
        ["interrupt"] => Event::StopRequested { reason: StopReason::Interrupted },
        ["threshold"] => Event::StopRequested { reason: StopReason::Threshold(0) },
        [name, "ready"] => Event::WorkflowReady { workflow: number(name) },
        [name, ref rest @ ..] => {
            let result = match rest {
                ["stopped"] => WorkflowEnd::Stopped,
                rest => result(rest).map_or_else(WorkflowEnd::Error, |()| WorkflowEnd::Ok),
            };
            Event::WorkflowEnded { workflow: number(name), result }
        }
        [] => panic!("empty line"),
    }
}

fn show(job: &Job, effects: &[Effect]) -> String {
    let one = |effect: &Effect| match effect {
        Effect::RunSetup => "setup".to_string(),
        Effect::StartWorkflow { workflow, .. } => format!("start {}", job.name(*workflow)),
        Effect::SkipWorkflow { workflow, because_of } => {
            format!("skip {} for {because_of}", job.name(*workflow))
        }
        Effect::StopAll => "stop".to_string(),
        Effect::RunTeardown => "teardown".to_string(),
        Effect::Finish { outcome } => format!("finish {outcome:?}").to_lowercase(),
    };
    effects.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Runs a script; one step takes one second.
fn play(plan: &str, script: &str) -> Job {
    let mut job = Job::new(shape(plan, true, true)).expect("a good shape");
    for (second, line) in script.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate()
    {
        let (input, expected) = line.split_once("=>").expect("event => effects");
        let event = event(&job, input);
        let got = match job.step(event, Duration::from_secs(second as u64)) {
            Ok(effects) => show(&job, &effects),
            Err(illegal) => format!("illegal when {}", illegal.from),
        };
        assert_eq!(got, expected.trim(), "after `{}` in\n{script}", input.trim());
    }
    job
}

#[test]
fn a_layer_starts_when_the_whole_layer_before_it_has_ended() {
    let job = play(
        "Setup LoadTest Validate(LoadTest) Report(Validate,LoadTest)",
        "start           => setup
         setup ok        => start Setup, start LoadTest
         LoadTest ready  =>
         LoadTest ok     =>
         Setup ok        => start Validate
         Validate ok     => start Report
         Report ok       => teardown
         teardown ok     => finish completed",
    );
    assert_eq!(job.outcome(), Some(Outcome::Completed));
    assert_eq!(job.span(1, Duration::MAX), (Duration::from_secs(1), Duration::from_secs(3)));
}

#[test]
fn waves_of_a_layer_run_one_after_another() {
    play(
        "a b! c d(a)",
        "start        => setup
         setup ok     => start b
         b ok         => start a, start c
         a ok         =>
         c ok         => start d
         d ok         => teardown
         teardown ok  => finish completed",
    );
}

#[test]
fn an_error_skips_all_that_depends_on_it_and_nothing_else() {
    let job = play(
        "a b c(a) d(b) e(c,d) f(e)",
        "start         => setup
         setup ok      => start a, start b
         a error boom  => skip c for a, skip e for a, skip f for a
         b ok          => start d
         d ok          => teardown
         teardown ok   => finish partial",
    );
    assert_eq!(job.status(0), Some(&WorkflowStatus::Failed { error: "boom".into() }));
    assert_eq!(job.status(5), Some(&WorkflowStatus::Skipped { because_of: "a".into() }));
    assert_eq!(job.span(5, Duration::MAX), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn a_job_of_which_nothing_completed_has_failed() {
    play(
        "a b(a)",
        "start         => setup
         setup ok      => start a
         a error boom  => skip b for a, teardown
         teardown ok   => finish failed",
    );
}

#[test]
fn a_failed_setup_fails_the_job_without_load_and_is_still_torn_down() {
    let job = play(
        "a b",
        "start            => setup
         setup error no   => teardown
         teardown ok      => finish failed",
    );
    assert_eq!(job.setup_error(), Some("no"));
    assert_eq!(job.status(1), Some(&WorkflowStatus::Skipped { because_of: "setup".into() }));
}

#[test]
fn the_first_reason_to_stop_wins() {
    for (first, then, outcome) in [
        ("cancel", "deadline", "cancelled"),
        ("interrupt", "threshold", "cancelled"),
        ("deadline", "interrupt", "timeout"),
        ("threshold", "interrupt", "completed"),
        // But for a cancel: whoever sent it was promised so.
        ("deadline", "cancel", "cancelled"),
        ("threshold", "cancel", "cancelled"),
    ] {
        let script = format!(
            "start        => setup
             setup ok     => start a, start b
             {first}      => stop
             {then}       =>
             a stopped    =>
             {then}       =>
             b ok         => teardown
             {then}       =>
             teardown ok  => finish {outcome}
             {then}       =>"
        );
        let job = play("a b c(a)", &script);
        assert_eq!(job.status(2), Some(&WorkflowStatus::Stopped));
        assert_eq!(job.state(1), WorkflowState::Completed);
    }
}

#[test]
fn an_error_before_a_threshold_stop_still_counts() {
    play(
        "a b",
        "start         => setup
         setup ok      => start a, start b
         a error boom  =>
         threshold     => stop
         b stopped     => teardown
         teardown ok   => finish partial",
    );
}

#[test]
fn a_cancel_while_teardown_runs_makes_the_outcome_cancelled() {
    let job = play(
        "a",
        "start          => setup
         setup ok       => start a
         a ok           => teardown
         cancel         =>
         teardown error late => finish cancelled",
    );
    assert_eq!(job.stop_reason(), StopReason::Cancelled);
}

#[test]
fn a_cancel_after_another_stop_makes_the_outcome_cancelled() {
    for stop in ["threshold", "deadline"] {
        let script = format!(
            "start          => setup
             setup ok       => start a
             {stop}         => stop
             cancel         =>
             a stopped      => teardown
             teardown ok    => finish cancelled"
        );
        play("a", &script);
        let script = format!(
            "start          => setup
             {stop}         => stop
             cancel         =>
             setup ok       => teardown
             teardown ok    => finish cancelled"
        );
        play("a", &script);
    }
}

#[test]
fn a_stop_during_setup_waits_for_it_and_starts_nothing() {
    for end in ["ok", "error aborted"] {
        let script = format!(
            "start        => setup
             cancel       => stop
             cancel       =>
             setup {end}  => teardown
             teardown ok  => finish cancelled"
        );
        assert_eq!(play("a", &script).setup_error(), None);
    }
}

#[test]
fn a_job_stopped_before_it_began_has_nothing_to_tear_down() {
    play("a", "cancel => finish cancelled\n start => illegal when done");
    play("a", "deadline => finish timeout");
}

#[test]
fn a_workflow_stopped_on_its_own_satisfies_nobody() {
    play(
        "a b c(a)",
        "start        => setup
         setup ok     => start a, start b
         a stopped    => skip c for a
         b ok         => teardown
         teardown ok  => finish partial",
    );
}

#[test]
fn moves_that_cannot_happen_are_named_and_change_nothing() {
    play(
        "a b(a)",
        "a ok         => illegal when new
         setup ok     => illegal when new
         start        => setup
         start        => illegal when in setup
         a ok         => illegal when in setup
         setup ok     => start a
         b ready      => illegal when running
         b ok         => illegal when running
         teardown ok  => illegal when running
         a ready      =>
         a ready      => illegal when running
         a ok         => start b
         a ok         => illegal when running
         b ok         => teardown
         setup ok     => illegal when in teardown
         teardown ok  => finish completed
         teardown ok  => illegal when done",
    );
}

#[test]
fn without_setup_and_teardown_steps_neither_is_run() {
    let mut job = Job::new(shape("a", false, false)).unwrap();
    let started = job.step(Event::Started, Duration::ZERO).unwrap();
    assert_eq!(started, [Effect::StartWorkflow { workflow: 0, cores: vec![0] }]);
    let ended = Event::WorkflowEnded { workflow: 0, result: WorkflowEnd::Ok };
    let finished = job.step(ended, Duration::ZERO).unwrap();
    assert_eq!(finished, [Effect::Finish { outcome: Outcome::Completed }]);
}

#[test]
fn a_shape_that_no_plan_can_have_is_refused() {
    let good = shape("a b(a)", true, true);
    let with = |change: fn(&mut Shape)| {
        let mut bad = good.clone();
        change(&mut bad);
        Job::new(bad).map(|_| ()).unwrap_err()
    };
    assert_eq!(Job::new(shape("", true, true)).map(|_| ()), Err(BadShape::Empty));
    assert_eq!(with(|s| s.depends_on.truncate(1)), BadShape::Lengths);
    assert_eq!(with(|s| s.layers.truncate(1)), BadShape::NotOnce { workflow: 1 });
    assert_eq!(with(|s| s.layers[1][0][0].0 = 0), BadShape::NotOnce { workflow: 0 });
    let itself = BadShape::Order { workflow: 0, depends_on: 0 };
    assert_eq!(with(|s| s.depends_on[0].push(0)), itself);
}
