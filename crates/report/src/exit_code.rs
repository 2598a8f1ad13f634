//! Did it pass? One number for a shell and one sentence for a person.
//!
//! What says most about the whole run comes first. A run that was interrupted is not "failed
//! thresholds", because it never had the chance to meet them; a result that is invalid is not
//! "passed", because its numbers mean nothing. Failed checks and requests count unless a threshold
//! speaks of them (R20).
//!
//! [`ExitCode`] has all numbers with their meaning, also those of what happens before a result
//! exists.

mod code;
mod script;

pub use code::ExitCode;

use stats::{Outcome, RunResult, StopReason, ThresholdResult, VerdictState, WorkflowStatus};

use crate::format;
use crate::rollup::Rollup;
use crate::unrun;

/// Thresholds on any of these say how many failed requests are acceptable.
const FAILURE_METRICS: [&str; 2] = ["http_req_failed", "errors"];

/// Of a threshold without a value.
pub(crate) const NOTHING_MEASURED: &str =
    "nothing was measured, so it is not known whether it holds";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub code: ExitCode,
    /// A clause without a full stop: "2 of 3 thresholds failed: ...".
    pub reason: String,
}

impl Exit {
    pub fn passed(&self) -> bool {
        self.code == ExitCode::Passed
    }
}

/// The result carries the plan's thresholds, so it is all that is needed.
pub fn exit_code(result: &RunResult) -> Exit {
    exit_code_of(result, &Rollup::new(result))
}

pub(crate) fn exit_code_of(result: &RunResult, rollup: &Rollup) -> Exit {
    if let Some(script) = &result.script {
        return script::exit_code(result, script);
    }
    let rules: [(ExitCode, Option<String>); 9] = [
        (ExitCode::Interrupted, interrupted(result)),
        (ExitCode::TimedOut, timed_out(result)),
        (ExitCode::Stopped, cancelled(result)),
        (ExitCode::Unfinished, unfinished(result)),
        (ExitCode::InvalidResult, invalid(result)),
        (ExitCode::NotHeld, thresholds_failed(result)),
        (ExitCode::NotHeld, checks_failed(result, rollup)),
        (ExitCode::NotHeld, requests_failed(result, rollup)),
        (ExitCode::Passed, Some(held(result, rollup))),
    ];
    let first = rules.into_iter().find_map(|(code, reason)| reason.map(|reason| (code, reason)));
    let (code, reason) = first.expect("the last rule always applies");
    Exit { code, reason }
}

fn interrupted(result: &RunResult) -> Option<String> {
    (result.stop == StopReason::Interrupted).then(|| "interrupted before the end".into())
}

fn timed_out(result: &RunResult) -> Option<String> {
    (result.stop == StopReason::Timeout || result.outcome == Outcome::Timeout)
        .then(|| "the run's time limit passed before the end".into())
}

fn cancelled(result: &RunResult) -> Option<String> {
    (result.stop == StopReason::Cancelled || result.outcome == Outcome::Cancelled)
        .then(|| "stopped on request before the end".into())
}

fn unfinished(result: &RunResult) -> Option<String> {
    let word = match result.outcome {
        Outcome::Failed => "failed",
        Outcome::Partial => "did not run completely",
        Outcome::Completed | Outcome::Cancelled | Outcome::Timeout => return None,
    };
    let failed = result.workflows.iter().find_map(|workflow| match &workflow.status {
        WorkflowStatus::Failed { error } => {
            Some(format!("workflow {} failed: {}", workflow.name, format::clean(error)))
        }
        _ => None,
    });
    Some(failed.unwrap_or_else(|| format!("the plan {word}")))
}

fn invalid(result: &RunResult) -> Option<String> {
    let verdict = &result.verdict;
    let fails = verdict.state != VerdictState::Valid && verdict.state >= result.fail_on;
    fails.then(|| format!("the result is {}: {}", verdict.state.name(), verdict.reasons.join("; ")))
}

/// What must be said beside "passed" if not everything was as planned: the first reason.
fn degraded(result: &RunResult) -> Option<String> {
    let verdict = &result.verdict;
    let reason = verdict.reasons.first().filter(|_| verdict.state == VerdictState::Degraded)?;
    let more = match verdict.reasons.len() {
        1 => String::new(),
        n => format!(" (and {} more)", format::plural(n as u64 - 1, "reason")),
    };
    Some(format!("but the result is degraded: {reason}{more}"))
}

fn thresholds_failed(result: &RunResult) -> Option<String> {
    // A threshold that ended the run has failed, even if the last second made its number good
    // again.
    let ended_by = match result.stop {
        StopReason::Threshold(number) => Some(number),
        _ => None,
    };
    let failed: Vec<&ThresholdResult> = result
        .thresholds
        .iter()
        .enumerate()
        .filter(|(number, threshold)| !threshold.ok || Some(*number) == ended_by)
        .map(|(_, threshold)| threshold)
        .collect();
    let first = failed.first()?;
    let unknown = match first.value {
        None => format!(" ({NOTHING_MEASURED})"),
        Some(_) => String::new(),
    };
    let what = format!("{} {}{unknown}", first.label, first.hold);
    Some(match (failed.len(), result.thresholds.len()) {
        (1, 1) => format!("the threshold failed: {what}"),
        (1, all) => format!("1 of {all} thresholds failed: {what}"),
        (n, all) => format!("{n} of {all} thresholds failed, first {what}"),
    })
}

fn checks_failed(result: &RunResult, rollup: &Rollup) -> Option<String> {
    if rollup.checked.fails == 0 || accepts_failed_checks(result) {
        return None;
    }
    let n = format::plural(rollup.checked.fails, "check");
    Some(format!(
        "{n} failed, and no threshold on `checks` says how many may{}",
        other_side(result, "checks")
    ))
}

fn requests_failed(result: &RunResult, rollup: &Rollup) -> Option<String> {
    if rollup.total.failed == 0 || accepts_failed_requests(result) {
        return None;
    }
    let n = format::plural(rollup.total.failed, "request");
    Some(format!(
        "{n} failed, and no threshold on `http_req_failed` says how many may{}",
        other_side(result, "http_req_failed")
    ))
}

pub(crate) fn accepts_failed_checks(result: &RunResult) -> bool {
    let allows = |one: &ThresholdResult| one.metric == "checks" && says_how_many(&one.hold, '>');
    result.thresholds.iter().any(allows)
}

pub(crate) fn accepts_failed_requests(result: &RunResult) -> bool {
    let allows = |one: &ThresholdResult| {
        FAILURE_METRICS.contains(&&*one.metric) && says_how_many(&one.hold, '<')
    };
    result.thresholds.iter().any(allows)
}

/// Whether a condition bounds failures from above: `rate < 1%` of failed requests, `rate > 99%` of
/// passed checks. One that demands failures allows none.
pub(crate) fn says_how_many(hold: &str, side: char) -> bool {
    let sign = hold.find(['<', '>', '=', '!']).and_then(|at| hold[at..].chars().next());
    sign == Some(side) || sign == Some('=')
}

/// A word on a threshold that bounds failures from below.
fn other_side(result: &RunResult, metric: &str) -> String {
    let found = result.thresholds.iter().find(|one| one.metric == metric);
    found.map_or_else(String::new, |one| {
        format!(" (`{}` says how many must)", format::clean(&one.hold))
    })
}

fn held(result: &RunResult, rollup: &Rollup) -> String {
    let thresholds = match result.thresholds.len() {
        0 => None,
        1 => Some("the threshold held".to_owned()),
        n => Some(format!("all {n} thresholds held")),
    };
    let checks = match (rollup.checked.passes, rollup.checked.fails) {
        (0, 0) => None,
        (_, 0) => Some("every check passed".to_owned()),
        (_, n) => Some(format!("{} failed, as allowed", format::plural(n, "check"))),
    };
    let requests = match rollup.total.failed {
        _ if rollup.total.requests == 0 => Some("no request was made".to_owned()),
        0 => Some("no request failed".to_owned()),
        n => Some(format!("{} failed, as allowed", format::plural(n, "request"))),
    };
    let unrun = match unrun::unrun_steps(result, rollup).as_slice() {
        [] => None,
        [one] => Some(format!("but step `{}` never ran", rollup.steps[*one].key)),
        several => Some(format!("but {} never ran", format::plural(several.len() as u64, "step"))),
    };
    let wall = unrun::login_wall(result, rollup).map(|wall| format!("but {wall}"));
    let parts = [thresholds, checks, requests, unrun, wall, degraded(result)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}
