//! The document of `--summary FILE.json`: everything a program may want to know about a finished
//! run.
//!
//! **Compatibility promise.** `schema` is `volley.summary/1`. Within `/1`, fields are only ever
//! added: none is removed, renamed, or changed in type, unit or meaning, and the order of keys
//! means nothing. A reader that ignores keys it does not know will read every later `/1` document.
//! What must break this becomes `/2`.
//!
//! Units are in the names (`_ms`, `_s`); rates are per second; shares are 0..=1. Percentiles come
//! from merged histograms and are off by at most `histogram.relative_error` of their value.

mod parts;
mod steps;

use std::io::{self, Write};
use std::path::Path;

use serde::{Serialize, Serializer};
use stats::{DropCause, ErrorKind, Outcome, RunResult, StopReason, Verdict};

use crate::addenda::{self, AddendumPart, CorrectedPart};
use crate::exit_code::exit_code_of;
use crate::rollup::Rollup;
use parts::{
    AllRequestsPart, CheckPart, ErrorSamplePart, GeneratorPart, HistoryPart, LatencyPart,
    ThresholdPart, TimelinePart, WorkflowPart,
};
use steps::{MetricPart, StagePart, StepPart};

/// The version of the document; see the promise above.
pub const SCHEMA: &str = "volley.summary/1";

#[derive(Debug, Serialize)]
pub struct Summary {
    pub schema: &'static str,
    pub plan: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub outcome: Outcome,
    /// `finished`, `threshold`, `interrupt`, `command` or `timeout`.
    pub stopped_by: &'static str,
    pub verdict: Verdict,
    pub exit_code: i32,
    pub exit_reason: String,
    pub elapsed_s: f64,
    pub requests: AllRequestsPart,
    /// From the intended start of each request to the last byte of its answer (R16).
    pub latency_ms: LatencyPart,
    /// k6's `http_req_duration`: sending, waiting and receiving.
    pub service_ms: LatencyPart,
    /// A step name that occurs in several workflows is keyed `workflow/step`.
    pub steps: Named<StepPart>,
    pub stages: Vec<StagePart>,
    pub workflows: Named<WorkflowPart>,
    /// A check name that occurs at several steps is keyed `step/check`.
    pub checks: Named<CheckPart>,
    pub thresholds: Vec<ThresholdPart>,
    /// Only kinds that occurred.
    pub errors: Named<u64>,
    pub error_samples: Vec<ErrorSamplePart>,
    /// Custom metrics.
    pub metrics: Named<MetricPart>,
    pub data_sent: u64,
    pub data_received: u64,
    pub iterations: u64,
    pub iterations_interrupted: u64,
    pub iteration_duration_ms: LatencyPart,
    pub dropped_iterations: u64,
    /// The same by cause; only causes that occurred.
    pub dropped: Named<u64>,
    pub timeline: Vec<TimelinePart>,
    pub generator: GeneratorPart,
    pub histogram: Histogram,
    pub notes: Vec<String>,
    /// What workers of a fleet have said after the result was made; everything else here is as it
    /// was then.
    pub addenda: Vec<AddendumPart>,
    /// `null` without addenda.
    pub corrected: Option<CorrectedPart>,
    pub history: Vec<HistoryPart>,
    /// Of the percentiles in `history`.
    pub history_relative_error: f64,
}

#[derive(Debug, Serialize)]
pub struct Histogram {
    pub relative_error: f64,
}

impl Summary {
    pub fn new(result: &RunResult) -> Summary {
        let rollup = Rollup::new(result);
        let exit = exit_code_of(result, &rollup);
        let (total, all) = (&rollup.total, &rollup.all);
        let (addenda, corrected) = addenda::parts(result);
        Summary {
            schema: SCHEMA,
            plan: result.plan.clone(),
            started_at: stats::time::rfc3339_ms(result.started_unix_ms),
            outcome: result.outcome,
            stopped_by: stopped_by(&result.stop),
            verdict: result.verdict.clone(),
            exit_code: exit.code.number(),
            exit_reason: exit.reason,
            elapsed_s: result.elapsed.as_secs_f64(),
            requests: AllRequestsPart::new(total, rollup.rate, result.issued),
            latency_ms: LatencyPart::new(&total.latency),
            service_ms: LatencyPart::new(&total.duration),
            steps: steps::steps(result, &rollup),
            stages: steps::stages(result),
            workflows: parts::workflows(result, &rollup),
            checks: parts::checks(&rollup),
            thresholds: result.thresholds.iter().map(ThresholdPart::new).collect(),
            errors: errors(&total.errors),
            error_samples: parts::error_samples(result, &rollup),
            metrics: steps::metrics(result, &rollup),
            data_sent: total.bytes_sent,
            data_received: total.bytes_received,
            iterations: all.iterations,
            iterations_interrupted: all.iterations_interrupted,
            iteration_duration_ms: LatencyPart::new(&all.iteration_duration),
            dropped_iterations: rollup.dropped(),
            dropped: dropped(&all.dropped),
            timeline: result.timeline.iter().map(TimelinePart::new).collect(),
            generator: GeneratorPart::new(&result.generator),
            histogram: Histogram { relative_error: stats::RELATIVE_ERROR },
            notes: result.notes.clone(),
            addenda,
            corrected,
            history: result.history.points().iter().map(HistoryPart::new).collect(),
            history_relative_error: stats::history::RELATIVE_ERROR,
        }
    }

    /// Indented, with a line feed at the end.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        let mut json = json.expect("plain structs with string keys always serialise");
        json.push('\n');
        json
    }

    /// `-` is standard output.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if path == Path::new("-") {
            return io::stdout().lock().write_all(self.to_json().as_bytes());
        }
        replace(path, self.to_json().as_bytes())
    }
}

/// Writes beside the file and puts it in its place: whoever looks sees the old one or the whole new
/// one. What is no plain file (a pipe, a device, a link) is written to as it is.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let known = std::fs::symlink_metadata(path);
    let name = path.file_name().filter(|_| !matches!(&known, Ok(known) if !known.is_file()));
    let Some(name) = name else { return std::fs::write(path, content) };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = std::fs::write(&beside, content)
        .and_then(|()| match known {
            Ok(known) => std::fs::set_permissions(&beside, known.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // It may not be there at all.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn stopped_by(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::Finished => "finished",
        StopReason::Threshold(_) => "threshold",
        StopReason::Interrupted => "interrupt",
        StopReason::Cancelled => "command",
        StopReason::Timeout => "timeout",
        StopReason::Aborted(_) => "script",
    }
}

pub(crate) fn errors(counts: &[u64; ErrorKind::ALL.len()]) -> Named<u64> {
    let counts = ErrorKind::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0);
    Named(counts.map(|(kind, count)| (kind.name().to_owned(), *count)).collect())
}

pub(crate) fn dropped(counts: &[u64; DropCause::ALL.len()]) -> Named<u64> {
    let counts = DropCause::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0);
    Named(counts.map(|(cause, count)| (cause.name().to_owned(), *count)).collect())
}

/// A JSON object in the order of the plan.
#[derive(Debug)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
