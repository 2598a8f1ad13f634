//! The exit code of a script's run: k6's, so that a pipeline need not know which tool ran.
//! `ExitCode::script_table` has the order of the rules in words.

use stats::series::{Sink, builtin};
use stats::{
    Outcome, RunResult, ScriptFailure, ScriptResult, StopReason, VerdictState, WorkflowStatus,
};

use super::{Exit, ExitCode, cancelled, interrupted, invalid, timed_out};
use crate::format;

/// With `strict`, silence is not success (R20): failed checks and requests count although no
/// threshold speaks of them.
pub(super) fn exit_code(result: &RunResult, script: &ScriptResult) -> Exit {
    let strict = script.strict;
    let rules: [(ExitCode, Option<String>); 11] = [
        (ExitCode::Interrupted, interrupted(result)),
        (ExitCode::TimedOut, timed_out(result)),
        (ExitCode::Stopped, cancelled(result)),
        failed(result, script),
        (ExitCode::Crashed, crashed(result)),
        (ExitCode::Unfinished, scenario_failed(result)),
        (ExitCode::NotHeld, thresholds(script)),
        (ExitCode::MarkedFailed, script.marked_failed.as_ref().map(|reason| marked(reason))),
        (ExitCode::InvalidResult, invalid(result).filter(|_| strict || asked(result))),
        (ExitCode::NotHeld, unnoticed(script).filter(|_| strict)),
        (ExitCode::Passed, Some(held(script))),
    ];
    let first = rules.into_iter().find_map(|(code, reason)| reason.map(|reason| (code, reason)));
    let (code, reason) = first.expect("the last rule always applies");
    Exit { code, reason }
}

/// k6 has no verdict; whoever names one wants it.
fn asked(result: &RunResult) -> bool {
    result.fail_on == VerdictState::Degraded
}

fn failed(result: &RunResult, script: &ScriptResult) -> (ExitCode, Option<String>) {
    let told = || {
        let note = result.notes.iter().find(|note| note.contains("setup failed"));
        let note =
            note.or_else(|| result.notes.iter().find(|note| note.contains("teardown failed")));
        note.cloned().or_else(|| scenario_failed(result))
    };
    match script.failure {
        None => (ExitCode::Passed, None),
        Some(ScriptFailure::SetupTimeout) => {
            (ExitCode::SetupTimeout, Some("setup() took too long".to_owned()))
        }
        Some(ScriptFailure::TeardownTimeout) => {
            (ExitCode::TeardownTimeout, Some("teardown() took too long".to_owned()))
        }
        Some(ScriptFailure::Exception) => (
            ExitCode::Exception,
            Some(told().unwrap_or_else(|| "the script threw an exception".to_owned())),
        ),
        Some(ScriptFailure::Abort) => {
            (ExitCode::Aborted, Some("the script aborted the test".to_owned()))
        }
    }
}

/// A scenario that could not run, with its reason.
fn scenario_failed(result: &RunResult) -> Option<String> {
    let failed = result.workflows.iter().find_map(|workflow| match &workflow.status {
        WorkflowStatus::Failed { error } => {
            Some(format!("scenario {} failed: {}", workflow.name, format::clean(error)))
        }
        _ => None,
    });
    failed.or_else(|| {
        let unknown = result.outcome == Outcome::Failed && result.stop == StopReason::Finished;
        unknown.then(|| "the test failed before it could run".to_owned())
    })
}

fn crashed(result: &RunResult) -> Option<String> {
    let crash = result.verdict.reasons.iter().find(|reason| reason.contains("crashed"));
    crash.filter(|_| result.verdict.state == VerdictState::Invalid).cloned()
}

fn thresholds(script: &ScriptResult) -> Option<String> {
    let mut keys: Vec<&str> = Vec::new();
    for outcome in script.thresholds.iter().filter(|one| !one.ok) {
        if !keys.contains(&outcome.key.as_str()) {
            keys.push(&outcome.key);
        }
    }
    // Pipelines look for this line.
    let names = keys.join(", ");
    (!keys.is_empty()).then(|| format!("thresholds on metrics '{names}' have been crossed"))
}

fn marked(reason: &str) -> String {
    match reason {
        "" => "the script marked the test as failed".to_owned(),
        reason => format!("the script marked the test as failed: {}", format::clean(reason)),
    }
}

/// Failed checks and requests that no threshold speaks of.
fn unnoticed(script: &ScriptResult) -> Option<String> {
    let spoken_of = |name: &str, side: char| {
        script.thresholds.iter().any(|one| {
            one.key.split('{').next() == Some(name) && super::says_how_many(&one.text, side)
        })
    };
    let rate = |metric| match script.totals.sink(metric) {
        Some(Sink::Rate { trues, total }) => (*trues, *total),
        _ => (0, 0),
    };
    let (passed, checks) = rate(builtin::CHECKS);
    if passed < checks && !spoken_of("checks", '>') {
        let n = format::plural(checks - passed, "check");
        return Some(format!("{n} failed, and no threshold on `checks` says how many may"));
    }
    let (failed, _) = rate(builtin::HTTP_REQ_FAILED);
    if failed > 0 && !spoken_of("http_req_failed", '<') {
        let n = format::plural(failed, "request");
        return Some(format!(
            "{n} failed, and no threshold on `http_req_failed` says how many may"
        ));
    }
    None
}

fn held(script: &ScriptResult) -> String {
    match script.thresholds.len() {
        0 => "the script ran to its end".to_owned(),
        1 => "the threshold held".to_owned(),
        n => format!("all {n} thresholds held"),
    }
}
