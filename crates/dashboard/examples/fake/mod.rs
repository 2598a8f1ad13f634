//! A made-up run, second by second: for golden tests and for looking at the view.
#![allow(dead_code, reason = "each user of this file needs some of it")]

use std::time::Duration;

use stats::{
    HistoryPoint, RunState, Snapshot, StepSnapshot, ThresholdResult, TotalSnapshot, Unit,
    WorkflowSnapshot, WorkflowState,
};

fn threshold(label: &str, hold: &str, value: f64, ok: bool, unit: Unit) -> ThresholdResult {
    ThresholdResult {
        metric: label.into(),
        label: label.into(),
        hold: hold.into(),
        value: Some(value),
        ok,
        unit,
        abort: false,
    }
}

fn step(workflow: &str, name: &str, requests: u64, failed: u64, p50_ms: f64) -> StepSnapshot {
    StepSnapshot {
        workflow: workflow.into(),
        name: name.into(),
        requests,
        failed,
        rate: requests as f64 / 12.0,
        p50_ms,
        p95_ms: p50_ms * 7.5,
        p99_ms: p50_ms * 31.0,
    }
}

fn history(seconds: u64) -> Vec<HistoryPoint> {
    let point = |second: u64| HistoryPoint {
        at_s: second as f64,
        over_s: 1.0,
        requests: 20 + second * 9 % 120,
        failed: 0,
        vus: second.min(50),
        p50_ms: 1.2,
        p95_ms: 5.0 + (second * 7 % 13) as f64,
        p99_ms: 40.0,
    };
    (0..seconds.min(120)).map(point).collect()
}

/// The example plan after so many milliseconds.
pub fn snapshot(ms: u64) -> Snapshot {
    let seconds = ms / 1000;
    let n = ms / 10;
    Snapshot {
        plan: "checkout".into(),
        elapsed: Duration::from_millis(ms),
        planned: Some(Duration::from_secs(40)),
        state: RunState::Running,
        workflows: vec![
            WorkflowSnapshot {
                name: "shop".into(),
                state: WorkflowState::Running,
                progress: (ms as f64 / 30_000.0).min(1.0),
                load: "ramping-vus, up to 50 VUs".into(),
                stage: "to 50 over 20s".into(),
                vus: 50.min(seconds * 10),
                iterations: n,
                dropped: if seconds > 10 { 17 } else { 0 },
            },
            WorkflowSnapshot {
                name: "search".into(),
                state: WorkflowState::Waiting,
                progress: 0.0,
                load: "constant-arrival-rate, 200/s for 10s".into(),
                stage: String::new(),
                vus: 0,
                iterations: 0,
                dropped: 0,
            },
        ],
        steps: vec![
            step("shop", "login", n, 12, 1.3),
            step("shop", "cart", n, 0, 2.2),
            step("search", "search", 0, 0, 0.0),
        ],
        total: TotalSnapshot {
            requests: 2 * n,
            failed: 12,
            under_way: 3,
            rate: 198.7,
            rate_mean: 2.0 * n as f64 / (ms as f64 / 1000.0).max(0.001),
            vus: 50.min(seconds * 10),
            iterations: n,
            checks_passed: 5 * n,
            checks_failed: 12,
            bytes_sent: 360 * n,
            bytes_received: 2900 * n,
            p50_ms: 1.7,
            p95_ms: 12.3,
            p99_ms: 54.0,
            dropped: 0,
        },
        errors: vec![("status".into(), 9), ("timeout".into(), 3)],
        thresholds: vec![
            threshold(
                "http_req_duration{step:cart}",
                "p(95) < 200ms",
                16.5,
                true,
                Unit::Milliseconds,
            ),
            threshold("checks", "rate > 99%", 0.981, false, Unit::Fraction),
        ],
        warnings: vec!["1.2% of iterations started more than 10ms late".into()],
        history: history(seconds),
    }
}
