//! The exit code as one table: what happened, which code, and a word of the reason.

use crate::fake;
use report::exit_code;
use stats::{Outcome, RunResult, StopReason, ThresholdResult, Unit, VerdictState, WorkflowStatus};

type Change = fn(&mut RunResult);

fn fail_check(result: &mut RunResult) {
    let layout = result.layout.clone();
    result.totals.block(&layout, 0).checks[0].fails += 1;
}

fn fail_request(result: &mut RunResult) {
    let layout = result.layout.clone();
    result.totals.block(&layout, 0).steps[0].failed += 1;
}

fn threshold(metric: &str, ok: bool) -> ThresholdResult {
    ThresholdResult {
        metric: metric.into(),
        label: metric.into(),
        hold: if metric == "checks" { "rate > 99%".into() } else { "rate < 1%".into() },
        value: Some(0.0),
        ok,
        unit: Unit::Fraction,
        abort: false,
    }
}

#[test]
fn the_first_rule_that_applies_decides() {
    let table: [(&str, Change, i32, &str); 20] = [
        ("nothing but requests", |_| {}, 0, "no request failed"),
        ("interrupted", |r| r.stop = StopReason::Interrupted, 105, "interrupted"),
        ("time limit", |r| r.stop = StopReason::Timeout, 102, "time limit"),
        ("outcome timeout", |r| r.outcome = Outcome::Timeout, 102, "time limit"),
        ("ctl stop", |r| r.stop = StopReason::Cancelled, 103, "on request"),
        ("outcome cancelled", |r| r.outcome = Outcome::Cancelled, 103, "on request"),
        ("failed", |r| r.outcome = Outcome::Failed, 122, "the plan failed"),
        ("partial", |r| r.outcome = Outcome::Partial, 122, "did not run completely"),
        (
            "failed workflow",
            |r| {
                r.outcome = Outcome::Partial;
                r.workflows[0].status = WorkflowStatus::Failed { error: "no token".into() };
            },
            122,
            "workflow shop failed: no token",
        ),
        ("invalid", |r| r.verdict.state = VerdictState::Invalid, 120, "invalid"),
        ("degraded still passes", |r| r.verdict.state = VerdictState::Degraded, 0, ""),
        ("threshold", |r| r.thresholds = vec![threshold("x", false)], 99, "x rate < 1%"),
        (
            "threshold that ended the run and recovered",
            |r| {
                r.thresholds = vec![threshold("x", true)];
                r.stop = StopReason::Threshold(0);
            },
            99,
            "x rate < 1%",
        ),
        ("check without threshold", fail_check, 99, "1 check failed"),
        (
            "check with a threshold that held",
            |r| {
                fail_check(r);
                r.thresholds = vec![threshold("checks", true)];
            },
            0,
            "1 check failed, as allowed",
        ),
        ("request without threshold", fail_request, 99, "1 request failed"),
        (
            "request with a threshold that held",
            |r| {
                fail_request(r);
                r.thresholds = vec![threshold("http_req_failed", true)];
            },
            0,
            "1 request failed, as allowed",
        ),
        (
            "a bound from below says how many must, and allows none",
            |r| {
                fail_request(r);
                let demands = threshold("http_req_failed", true);
                r.thresholds = vec![ThresholdResult { hold: "rate > 1%".into(), ..demands }];
            },
            99,
            "(`rate > 1%` says how many must)",
        ),
        (
            "a threshold on something else excuses nothing",
            |r| {
                fail_request(r);
                r.thresholds = vec![threshold("http_req_duration", true)];
            },
            99,
            "1 request failed",
        ),
        (
            "interrupt comes before everything else",
            |r| {
                r.stop = StopReason::Interrupted;
                r.outcome = Outcome::Failed;
                r.verdict.state = VerdictState::Invalid;
                r.thresholds = vec![threshold("x", false)];
            },
            105,
            "interrupted",
        ),
    ];
    for (name, change, code, word) in table {
        let mut result = fake::good();
        result.thresholds.clear();
        change(&mut result);
        let exit = exit_code(&result);
        assert_eq!(exit.code.number(), code, "{name}: {}", exit.reason);
        assert!(exit.reason.contains(word), "{name}: {}", exit.reason);
    }
}

#[test]
fn a_degraded_result_is_not_plainly_passed_and_fails_if_that_is_asked_for() {
    let mut result = fake::good();
    result.verdict.state = VerdictState::Degraded;
    result.verdict.reasons = vec!["16% of the load was missing".into(), "late".into()];
    let exit = exit_code(&result);
    assert_eq!(exit.code.number(), 0);
    let said = "but the result is degraded: 16% of the load was missing (and 1 reason more)";
    assert!(exit.reason.ends_with(said), "{}", exit.reason);
    result.fail_on = VerdictState::Degraded;
    assert_eq!(exit_code(&result).code.number(), 120);
    result.verdict.state = VerdictState::Valid;
    assert_eq!(exit_code(&result).code.number(), 0);
}

#[test]
fn the_codes_keep_their_order_when_several_apply() {
    let worse: [(Change, i32); 5] = [
        (|r| r.thresholds = vec![threshold("x", false)], 99),
        (|r| r.verdict.state = VerdictState::Invalid, 120),
        (|r| r.outcome = Outcome::Partial, 122),
        (|r| r.stop = StopReason::Cancelled, 103),
        (|r| r.stop = StopReason::Interrupted, 105),
    ];
    let mut result = fake::good();
    for (change, code) in worse {
        change(&mut result);
        assert_eq!(exit_code(&result).code.number(), code);
    }
}
