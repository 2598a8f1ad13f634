//! JUnit XML: a test case per threshold and per check, so that a CI system lists them.
//!
//! **Invariant:** the document has a failure exactly if the exit code is not 0. So checks are
//! failures only where no threshold says how many may fail, and what fails the run as a whole has a
//! case of its own.

use std::fmt::Write;

use stats::{RunResult, StopReason};

use crate::exit_code::{ExitCode, accepts_failed_checks, accepts_failed_requests, exit_code_of};
use crate::format;
use crate::rollup::Rollup;

struct Case {
    class: String,
    name: String,
    /// Message and details.
    failure: Option<(String, String)>,
    out: String,
}

pub fn junit(result: &RunResult) -> String {
    let rollup = Rollup::new(result);
    let mut cases = vec![run_case(result, &rollup), requests_case(result, &rollup)];
    cases.extend(threshold_cases(result));
    cases.extend(check_cases(result, &rollup));
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let counts = format!(r#"tests="{}" failures="{failures}" errors="0""#, cases.len());
    let time = format!(r#"time="{:.3}""#, result.elapsed.as_secs_f64());
    let at = stats::time::rfc3339_ms(result.started_unix_ms);
    let at = at.split('.').next().unwrap_or_default();
    let name = escape(&result.plan);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, r#"<testsuites name="volley" {counts} {time}>"#);
    let _ = writeln!(
        out,
        r#"  <testsuite name="{name}" {counts} skipped="0" {time} timestamp="{at}">"#
    );
    cases.iter().for_each(|case| write_case(&mut out, case));
    out += "  </testsuite>\n</testsuites>\n";
    out
}

fn write_case(out: &mut String, case: &Case) {
    let (class, name) = (escape(&case.class), escape(&case.name));
    let _ = writeln!(out, r#"    <testcase classname="{class}" name="{name}" time="0">"#);
    if let Some((message, details)) = &case.failure {
        let (message, details) = (escape(message), escape(details));
        let _ = writeln!(out, r#"      <failure message="{message}">{details}</failure>"#);
    }
    if !case.out.is_empty() {
        let _ = writeln!(out, "      <system-out>{}</system-out>", escape(&case.out));
    }
    out.push_str("    </testcase>\n");
}

/// Did it run to its end, and are its numbers worth anything?
fn run_case(result: &RunResult, rollup: &Rollup) -> Case {
    let exit = exit_code_of(result, rollup);
    // What 99 stands for has cases of its own, unless a threshold ended the run and recovered.
    let of_run = !matches!(exit.code, ExitCode::Passed | ExitCode::NotHeld);
    let reasons = result.verdict.reasons.join("; ");
    let verdict = format!("{:?}", result.verdict.state).to_lowercase();
    Case {
        class: "run".into(),
        name: "the run is complete and valid".into(),
        failure: of_run.then(|| (exit.reason, format!("exit code {}", exit.code))),
        out: format!(
            "outcome {:?}, verdict {verdict}{}{reasons}",
            result.outcome,
            if reasons.is_empty() { "" } else { ": " },
        ),
    }
}

fn requests_case(result: &RunResult, rollup: &Rollup) -> Case {
    let total = &rollup.total;
    let failed = total.failed > 0 && !accepts_failed_requests(result);
    let samples = result.error_samples.iter().filter(|sample| sample.count > 0).map(|sample| {
        format!("{} × {}: {}", sample.count, sample.kind.name(), format::clean(&sample.message))
    });
    Case {
        class: "run".into(),
        name: "no request failed, or no more than a threshold allows".into(),
        failure: failed.then(|| {
            let n = format::plural(total.failed, "request");
            (format!("{n} failed"), samples.collect::<Vec<_>>().join("\n"))
        }),
        out: format!(
            "{} requests, {} failed, {}/s, latency p50 {} p95 {} p99 {}",
            format::count(total.requests),
            format::count(total.failed),
            format::rate(rollup.rate),
            format::time_ms(total.latency.percentile_ms(50.0)),
            format::time_ms(total.latency.percentile_ms(95.0)),
            format::time_ms(total.latency.percentile_ms(99.0)),
        ),
    }
}

fn threshold_cases(result: &RunResult) -> Vec<Case> {
    let thresholds = result.thresholds.iter().enumerate();
    thresholds
        .map(|(number, threshold)| {
            let measured = match threshold.value {
                Some(value) => format!("measured {}", format::value(value, threshold.unit)),
                None => crate::exit_code::NOTHING_MEASURED.to_owned(),
            };
            let ended = result.stop == StopReason::Threshold(number);
            let failed = !threshold.ok || ended;
            let message = format!("{} {}: {measured}", threshold.label, threshold.hold);
            let details = if ended { "it ended the run" } else { "" };
            Case {
                class: "thresholds".into(),
                name: format!("{} {}", threshold.label, threshold.hold),
                failure: failed.then(|| (message, details.to_owned())),
                out: measured,
            }
        })
        .collect()
}

fn check_cases(result: &RunResult, rollup: &Rollup) -> Vec<Case> {
    let accepted = accepts_failed_checks(result);
    let checks = rollup.checks.iter();
    checks
        .map(|check| {
            let (passes, fails) = (check.count.passes, check.count.fails);
            let share = format::share(passes, passes + fails);
            let counts = format!("{share} — {passes} passed, {fails} failed");
            Case {
                class: format!("checks.{}", rollup.steps[check.step].key),
                name: check.name.clone(),
                failure: (fails > 0 && !accepted).then(|| (counts.clone(), String::new())),
                out: counts,
            }
        })
        .collect()
}

/// For attributes and text alike; characters that XML 1.0 cannot hold are replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
