//! The result of `volley URL`: as short as wrk's, which is why people like wrk.

use std::fmt::Write;

use stats::{ErrorKind, RunResult, VerdictState};

use super::table::{Tone, paint};
use super::{Look, errors, hints, wrap};
use crate::exit_code::exit_code_of;
use crate::format;
use crate::rollup::{Rollup, per_second};

/// About ten lines; more only if something went wrong.
pub fn brief(result: &RunResult, look: Look) -> String {
    let look = look.within_bounds();
    let rollup = Rollup::new(result);
    let (total, exit) = (&rollup.total, exit_code_of(result, &rollup));
    let mut out = String::new();
    for part in wrap(&head(result), look.width) {
        let _ = writeln!(out, "{part}");
    }
    let mut say = |label: &str, text: &str| {
        for (i, part) in wrap(text, look.width - 12).iter().enumerate() {
            let _ = writeln!(out, "  {:<10}{part}", if i == 0 { label } else { "" });
        }
    };
    say("requests", &requests(&rollup));
    let latency = &total.latency;
    say("latency", &percentiles(latency));
    // Worth a line only where waiting for a slot or a connection was part of it.
    if latency.percentile_ms(99.0) > 1.1 * total.duration.percentile_ms(99.0) + 0.1 {
        say("service", &percentiles(&total.duration));
    }
    let received = format::bytes(total.bytes_received as f64);
    let per_second = format::bytes(per_second(total.bytes_received, result.elapsed));
    let sent = format::bytes(total.bytes_sent as f64);
    say("data", &format!("{received} received ({per_second}/s), {sent} sent"));
    let mut statuses: Vec<(u16, u64)> = total.status.iter().collect();
    statuses.sort_unstable();
    let statuses: Vec<String> =
        statuses.iter().map(|(status, n)| format!("{status}: {}", format::count(*n))).collect();
    if !statuses.is_empty() {
        say("answers", &statuses.join(", "));
    }
    let errors = ErrorKind::ALL.into_iter().zip(total.errors).filter(|(_, n)| *n > 0);
    let errors: Vec<String> =
        errors.map(|(kind, n)| format!("{}: {}", kind.name(), format::count(n))).collect();
    if !errors.is_empty() {
        say("errors", &paint(look.color, Tone::Red, &errors.join(", ")));
    }
    if rollup.dropped() > 0 {
        say("dropped", &super::totals::dropped_text(&rollup.all.dropped));
    }
    if result.verdict.state != VerdictState::Valid {
        let word = format!("{:?}", result.verdict.state).to_lowercase();
        let text = format!("{word}: {}", result.verdict.reasons.join("; "));
        say("verdict", &paint(look.color, Tone::Yellow, &text));
    }
    for note in &result.notes {
        say("note", &format::clean(note));
    }
    if !exit.passed() {
        let answered = result.error_samples.iter().filter(|one| one.kind == ErrorKind::Status);
        let seen = answered.max_by_key(|one| one.count).and_then(|one| one.exchange.as_deref());
        if let Some(exchange) = seen {
            for (i, text) in errors::exchange_lines(exchange, look.width - 14).iter().enumerate() {
                say(if i == 0 { "exchange" } else { "" }, &paint(look.color, Tone::Dim, text));
            }
        }
        for hint in hints::hints(result, &rollup) {
            say("next", &hint);
        }
        out += &super::conclusion::last_line(&exit, result.verdict.state, look);
    }
    out
}

fn head(result: &RunResult) -> String {
    let elapsed = format::time_ms(result.elapsed.as_secs_f64() * 1e3);
    let vus = result.workflows.iter().map(|workflow| workflow.vus_max).sum();
    let cores = result.generator.cores as u64;
    let what = match result.layout.steps.first() {
        Some(step) => format!("{} {}", step.method, format::clean(&step.route)),
        None => format::clean(&result.plan),
    };
    let (vus, cores) = (format::plural(vus, "connection"), format::plural(cores, "core"));
    format!("{what}  {elapsed}, {vus}, {cores}")
}

fn requests(rollup: &Rollup) -> String {
    let total = &rollup.total;
    let mut text = format!(
        "{} ({}/s), {} failed",
        format::count(total.requests),
        format::rate(rollup.rate),
        format::count(total.failed),
    );
    if total.failed > 0 {
        let _ = write!(text, " ({})", format::share(total.failed, total.requests));
    }
    if total.interrupted > 0 {
        let _ = write!(text, ", {} cut off by the end", format::count(total.interrupted));
    }
    text
}

fn percentiles(trend: &stats::Trend) -> String {
    if trend.is_empty() {
        return "nothing measured".to_owned();
    }
    let p = |percent| format::time_ms(trend.percentile_ms(percent));
    format!(
        "min {}  mean {}  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
        format::time_ms(trend.min_ms()),
        format::time_ms(trend.mean_ms()),
        p(50.0),
        p(90.0),
        p(99.0),
        p(99.9),
        format::time_ms(trend.max_ms()),
    )
}
