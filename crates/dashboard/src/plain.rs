//! Progress where there is no terminal: one line every few seconds, made for logs.

use report::format;
use stats::{RunState, Snapshot, WorkflowState};

/// `12s  running  shop 40%  50 VUs  1,234 req (98.7/s)  p95 12.3ms  0 failed`
pub fn plain_line(snapshot: &Snapshot) -> String {
    let total = &snapshot.total;
    let mut parts = vec![elapsed(snapshot), state_name(snapshot.state).to_owned()];
    for workflow in &snapshot.workflows {
        if workflow.state == WorkflowState::Running {
            let percent = (workflow.progress.clamp(0.0, 1.0) * 100.0).floor();
            parts.push(format!("{} {percent}%", format::clean(&workflow.name)));
        }
    }
    parts.push(format::plural(total.vus, "VU"));
    match waiting(snapshot) {
        Some(waiting) => parts.push(waiting),
        None => {
            let (requests, rate) = (format::count(total.requests), format::rate(total.rate));
            parts.push(format!("{requests} req ({rate}/s)"));
        }
    }
    if total.p95_ms > 0.0 {
        parts.push(format!("p95 {}", format::time_ms(total.p95_ms)));
    }
    parts.push(format!("{} failed", format::count(total.failed)));
    if total.checks_failed > 0 {
        parts.push(format!("{} failed", format::plural(total.checks_failed, "check")));
    }
    if total.dropped > 0 {
        parts.push(format!("{} dropped", format::count(total.dropped)));
    }
    let broken: Vec<&str> = snapshot
        .thresholds
        .iter()
        .filter(|threshold| !threshold.ok && threshold.value.is_some())
        .map(|threshold| &*threshold.label)
        .collect();
    if !broken.is_empty() {
        parts.push(format!("✗ {}", broken.join(", ")));
    }
    parts.join("  ")
}

/// What can be said of a target that accepts and does not answer: zeros would look like a run that
/// does nothing.
pub(crate) fn waiting(snapshot: &Snapshot) -> Option<String> {
    let total = &snapshot.total;
    (total.requests == 0 && total.under_way > 0).then(|| {
        let requests = format::plural(total.under_way, "request");
        format!("{requests} under way, nothing has come back yet")
    })
}

fn elapsed(snapshot: &Snapshot) -> String {
    // Whole seconds: the lines of a log should have the same width.
    let seconds = snapshot.elapsed.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds:02}s"),
    }
}

pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Preparing => "preparing",
        RunState::Running => "running",
        RunState::Paused => "paused",
        RunState::Stopping => "stopping",
        RunState::Done => "done",
    }
}
