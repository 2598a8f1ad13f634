//! The report's page while its run goes on: the same parts from the same numbers, in pieces that
//! can be put in the place of older ones.
//!
//! ```text
//! Progress ──▶ parts      markup by name: header, figures, thresholds, checks, errors, rest
//!          ├─▶ document   what the page's script needs beside the history
//!          └─▶ history    columns of some slots: those that are new or have changed
//! ```

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value;
use stats::{Progress, RunResult, RunState};

use crate::format;
use crate::html::markup::{Part, escaped};
use crate::html::{findings, sections};
use crate::record::{self, About};

/// Where the parts go, in order; the charts and the steps have their places between them.
pub const BEFORE_CHARTS: [&str; 3] = ["header", "figures", "thresholds"];
pub const AFTER_STEPS: [&str; 3] = ["checks", "errors", "rest"];

/// Everything that the page's script needs but the history.
pub fn document(result: &RunResult, about: &About) -> Value {
    let mut document = record::head(result, about);
    if let Some(summary) = document["summary"].as_object_mut() {
        // The page makes its charts from the slots themselves.
        summary.remove("history");
    }
    if let Some(script) = record::of_script(result) {
        document["script"] = script;
    }
    document
}

/// Columns of these slots.
pub fn history(result: &RunResult, slots: Range<usize>) -> Value {
    record::history::part(result, slots)
}

/// The page in pieces. `document`: see [`document`], or a record's; without `progress` the run has
/// ended.
pub fn parts(
    document: &Value,
    progress: Option<&Progress>,
) -> impl Iterator<Item = (&'static str, String)> {
    let document = Part(document);
    let summary = document.key("summary");
    let head = match progress {
        Some(progress) => header(document, progress),
        None => sections::header(document),
    };
    [
        ("header", head),
        ("figures", sections::figures(summary)),
        ("thresholds", sections::thresholds(summary)),
        ("checks", sections::checks(document)),
        ("errors", findings::errors(summary)),
        ("rest", findings::rest(summary)),
    ]
    .into_iter()
}

/// What is known while a run goes on: nothing has passed or failed yet.
fn header(document: Part<'_>, progress: &Progress) -> String {
    let summary = document.key("summary");
    let (word, class, sign) = match progress.state {
        RunState::Preparing => ("Preparing", "warn", "…"),
        RunState::Running => ("Running", "run", "●"),
        RunState::Paused => ("Paused", "warn", "‖"),
        RunState::Stopping => ("Stopping", "warn", "■"),
        RunState::Done => ("Ended", "run", "■"),
    };
    let (trust, trust_class, trust_sign) = match summary.at("/verdict/state").raw() {
        "valid" => ("Valid so far", "good", "✓"),
        "degraded" => ("Degraded so far", "warn", "!"),
        _ => ("Invalid so far", "bad", "✗"),
    };
    let mut html = format!(
        "<header><p class=\"brand\">Volley · live</p><h1>{}</h1><p class=\"badges\">\
         <strong class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</strong> \
         <strong class=\"badge {trust_class}\"><span aria-hidden=\"true\">{trust_sign}</span> \
         {trust}</strong></p><p class=\"why\">{}</p>",
        summary.key("plan").text(),
        how_far(progress, summary),
    );
    if let Some(planned) = progress.planned.filter(|planned| !planned.is_zero()) {
        let share = progress.result.elapsed.as_secs_f64() / planned.as_secs_f64();
        let _ = write!(
            html,
            "<progress max=\"1\" value=\"{:.3}\" aria-label=\"How far the run has come\"></progress>",
            share.min(1.0)
        );
    }
    sections::reasons(&mut html, summary);
    sections::facts(&mut html, document, false);
    html.push_str("</header>");
    html
}

fn how_far(progress: &Progress, summary: Part<'_>) -> String {
    let time = |time: Duration| format::time_ms((time.as_secs_f64() * 1e3).round());
    let elapsed = time(Duration::from_secs(progress.result.elapsed.as_secs()));
    let mut text = match progress.planned {
        Some(planned) => format!("{elapsed} of {}", time(planned)),
        None => elapsed,
    };
    let all = summary.key("thresholds").list().count();
    let is_measured = |threshold: &Part<'_>| !threshold.key("value").is_null();
    let measured = summary.key("thresholds").list().filter(is_measured);
    let broken = measured.filter(|threshold| !threshold.key("ok").is_true()).count();
    if all > 0 {
        let _ = match broken {
            0 => write!(text, " · no threshold of {all} is broken"),
            _ => write!(text, " · {broken} of {} broken", format::plural(all as u64, "threshold")),
        };
    }
    escaped(&text)
}
