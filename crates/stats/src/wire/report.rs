//! Whole results and snapshots, on their way to whoever watches or asks later.
//!
//! The names travel with the numbers: a reader needs nothing but the bytes. Plain parts go through
//! `serde`, tables of counts in the form that frames have.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Reader, Schema, WireError, Writer, kind, open, read_delta, read_series, seal, write_delta,
    write_series,
};
use crate::delta::Delta;
use crate::history::History;
use crate::layout::Layout;
use crate::result::{
    ErrorSample, GeneratorStats, Outcome, RunResult, StopReason, ThresholdResult, TimelineEntry,
    Verdict, WorkflowResult,
};
use crate::script_result::{ScriptFailure, ScriptResult};
use crate::series::{Contains, SeriesLayout, ThresholdSpec, Thresholds, builtin};
use crate::snapshot::Snapshot;
use crate::window::Window;

/// R17a: a result that is larger is not taken.
pub const RESULT_BYTES_MAX: usize = 4 << 20;
const SNAPSHOT_BYTES_MAX: usize = 1 << 20;
/// 3 was without histograms in the history.
const RESULT: u8 = 7;
const SNAPSHOT: u8 = 4;
const SCHEMA: u8 = 6;
/// 128 MiB of folded values: a long run of many groups.
const PAGES_MAX: usize = 64 << 10;

/// All of a result but its tables.
#[derive(Serialize, Deserialize)]
struct Head {
    plan: String,
    started_unix_ms: u64,
    elapsed: Duration,
    outcome: Outcome,
    verdict: Verdict,
    stop: StopReason,
    layout: Layout,
    issued: crate::result::Issued,
    last_words: crate::LastWords,
    workflows: Vec<WorkflowResult>,
    thresholds: Vec<ThresholdResult>,
    error_samples: Vec<ErrorSample>,
    timeline: Vec<TimelineEntry>,
    generator: GeneratorStats,
    history: History,
    notes: Vec<String>,
    script: Option<ScriptHead>,
}

#[derive(Serialize, Deserialize)]
struct ScriptHead {
    layout: SeriesNames,
    /// How each threshold stood: the value that was compared, and whether it held.
    thresholds: Vec<(Option<f64>, bool)>,
    strict: bool,
    setup_data: Option<String>,
    failure: Option<ScriptFailure>,
    marked_failed: Option<String>,
}

/// A script's layout as the steps that make it again.
#[derive(Serialize, Deserialize)]
pub(crate) struct SeriesNames {
    /// Name, kind, what it contains; without those that every run has.
    metrics: Vec<(String, u8, u8)>,
    /// Sub-metrics that were asked for.
    subs: Vec<String>,
    /// Key, text, abort, delay.
    thresholds: Vec<(String, String, bool, Duration)>,
    sections: bool,
}

const CONTAINS: [Contains; 3] = [Contains::Default, Contains::Time, Contains::Data];

impl SeriesNames {
    pub fn of(layout: &SeriesLayout) -> SeriesNames {
        let custom = layout.metrics().filter(|(id, _)| layout.is_custom(*id));
        let contains = |wanted| CONTAINS.iter().position(|known| *known == wanted).unwrap_or(0);
        SeriesNames {
            metrics: custom
                .map(|(_, metric)| {
                    let contains = contains(metric.contains) as u8;
                    (metric.name.clone(), kind::number(metric.kind), contains)
                })
                .collect(),
            subs: layout
                .subs()
                .filter(|(_, sub)| sub.wanted)
                .map(|(_, sub)| sub.key.clone())
                .collect(),
            thresholds: layout
                .thresholds()
                .iter()
                .map(|threshold| {
                    let key = match threshold.sub {
                        Some(sub) => &layout.get_sub(sub).key,
                        None => &layout.get(threshold.metric).name,
                    };
                    let spec = &threshold.spec;
                    (key.clone(), spec.text.clone(), spec.abort_on_fail, spec.delay_abort_eval)
                })
                .collect(),
            sections: layout.sections(),
        }
    }

    pub fn make(&self) -> Result<SeriesLayout, WireError> {
        let wrong = |what| WireError::Contradiction { what };
        let mut layout = SeriesLayout::new();
        for (name, kind_number, contains) in &self.metrics {
            let kind = kind::of(*kind_number).ok_or(wrong("a metric's kind"))?;
            let contains = CONTAINS.get(usize::from(*contains)).ok_or(wrong("a metric's type"))?;
            layout.metric(name, kind, *contains).map_err(|_| wrong("a metric's name"))?;
        }
        for key in &self.subs {
            layout.threshold(key, &[]).map_err(|_| wrong("a sub-metric"))?;
        }
        for (key, text, abort_on_fail, delay_abort_eval) in &self.thresholds {
            let spec = ThresholdSpec {
                text: text.clone(),
                abort_on_fail: *abort_on_fail,
                delay_abort_eval: *delay_abort_eval,
            };
            layout.threshold(key, &[spec]).map_err(|_| wrong("a threshold"))?;
        }
        layout.set_sections(self.sections);
        debug_assert!(layout.find("vus") == Some(builtin::VUS));
        Ok(layout)
    }
}

/// What is too large is made smaller where that only costs detail: the curve first, then messages.
pub fn encode_result(result: &RunResult) -> Result<Vec<u8>, WireError> {
    let mut head = head_of(result);
    loop {
        let bytes = encode_parts(&head, result);
        if bytes.len() <= RESULT_BYTES_MAX {
            return Ok(bytes);
        }
        if head.history.slots().len() > 60 {
            head.history.halve();
        } else if head.error_samples.iter().any(|sample| !sample.later.is_empty()) {
            head.error_samples.iter_mut().for_each(|sample| sample.later.clear());
        } else if head.error_samples.iter().any(|sample| sample.exchange.is_some()) {
            head.error_samples.iter_mut().for_each(|sample| sample.exchange = None);
        } else {
            return Err(WireError::TooLarge { bytes: bytes.len(), limit: RESULT_BYTES_MAX });
        }
    }
}

fn head_of(result: &RunResult) -> Head {
    let script = result.script.as_deref().map(|script| ScriptHead {
        layout: SeriesNames::of(&script.layout),
        thresholds: script.thresholds.iter().map(|outcome| (outcome.value, outcome.ok)).collect(),
        strict: script.strict,
        setup_data: script.setup_data.clone(),
        failure: script.failure,
        marked_failed: script.marked_failed.clone(),
    });
    Head {
        plan: result.plan.clone(),
        started_unix_ms: result.started_unix_ms,
        elapsed: result.elapsed,
        outcome: result.outcome,
        verdict: result.verdict.clone(),
        stop: result.stop.clone(),
        layout: (*result.layout).clone(),
        issued: result.issued,
        last_words: result.last_words.clone(),
        workflows: result.workflows.clone(),
        thresholds: result.thresholds.clone(),
        error_samples: result.error_samples.clone(),
        timeline: result.timeline.clone(),
        generator: result.generator.clone(),
        history: result.history.clone(),
        notes: result.notes.clone(),
        script,
    }
}

fn encode_parts(head: &Head, result: &RunResult) -> Vec<u8> {
    seal(RESULT, |writer| {
        write_plain(writer, head);
        write_delta(writer, &Delta::of(&result.totals));
        if let Some(script) = &result.script {
            write_series(writer, &script.totals);
        }
    })
}

pub fn decode_result(bytes: &[u8]) -> Result<RunResult, WireError> {
    let mut reader = Reader::new(open(RESULT, bytes, RESULT_BYTES_MAX)?, PAGES_MAX);
    let head: Head = read_plain(&mut reader, RESULT_BYTES_MAX)?;
    check(&head.layout)?;
    if !head.history.is_sound(&head.layout) {
        return Err(WireError::Contradiction { what: "the history" });
    }
    let layout = Arc::new(head.layout);
    let names = head.script.as_ref().map(|script| script.layout.make()).transpose()?;
    let schema = Schema::new(layout.clone(), names.map(Arc::new));
    let mut totals = Window::new(&layout);
    read_delta(&mut reader, &schema)?.add_to(&mut totals, &layout);
    let script = match (head.script, &schema.series) {
        (Some(script), Some(layout)) => {
            let totals = read_series(&mut reader, layout)?;
            let outcomes = Thresholds::new(layout).restored(&script.thresholds);
            Some(Box::new(ScriptResult {
                layout: layout.clone(),
                totals,
                thresholds: outcomes.ok_or(WireError::Contradiction { what: "thresholds" })?,
                strict: script.strict,
                setup_data: script.setup_data,
                failure: script.failure,
                marked_failed: script.marked_failed,
            }))
        }
        _ => None,
    };
    reader.end()?;
    Ok(RunResult {
        plan: head.plan,
        started_unix_ms: head.started_unix_ms,
        elapsed: head.elapsed,
        outcome: head.outcome,
        verdict: head.verdict,
        stop: head.stop,
        layout,
        totals,
        issued: head.issued,
        last_words: head.last_words,
        workflows: head.workflows,
        thresholds: head.thresholds,
        error_samples: head.error_samples,
        timeline: head.timeline,
        generator: head.generator,
        history: head.history,
        notes: head.notes,
        script,
        fail_on: crate::result::VerdictState::Invalid,
    })
}

/// For whoever has to count what others measure, and does not run what they run.
pub fn encode_schema(schema: &Schema) -> Vec<u8> {
    let names = schema.series.as_deref().map(SeriesNames::of);
    seal(SCHEMA, |writer| write_plain(writer, &(&*schema.layout, names)))
}

pub fn decode_schema(bytes: &[u8]) -> Result<Schema, WireError> {
    let mut reader = Reader::new(open(SCHEMA, bytes, SNAPSHOT_BYTES_MAX)?, 0);
    let (layout, names): (Layout, Option<SeriesNames>) =
        read_plain(&mut reader, SNAPSHOT_BYTES_MAX)?;
    reader.end()?;
    check(&layout)?;
    let series = names.map(|names| names.make()).transpose()?;
    Ok(Schema::new(Arc::new(layout), series.map(Arc::new)))
}

pub fn encode_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    seal(SNAPSHOT, |writer| write_plain(writer, snapshot))
}

pub fn decode_snapshot(bytes: &[u8]) -> Result<Snapshot, WireError> {
    let mut reader = Reader::new(open(SNAPSHOT, bytes, SNAPSHOT_BYTES_MAX)?, 0);
    let snapshot = read_plain(&mut reader, SNAPSHOT_BYTES_MAX)?;
    reader.end()?;
    Ok(snapshot)
}

pub(crate) fn write_plain<T: Serialize>(writer: &mut Writer, value: &T) {
    let bytes = postcard::to_stdvec(value);
    debug_assert!(bytes.is_ok(), "plain data can always be written: {:?}", bytes.as_ref().err());
    writer.bytes(&bytes.unwrap_or_default());
}

pub(crate) fn read_plain<T: for<'de> Deserialize<'de>>(
    reader: &mut Reader<'_>,
    limit: usize,
) -> Result<T, WireError> {
    let bytes = reader.bytes("plain data", limit)?;
    postcard::from_bytes(bytes).map_err(|_| WireError::Contradiction { what: "plain data" })
}

/// The ranges of a layout that was read: every number that others are looked up by must exist.
fn check(layout: &Layout) -> Result<(), WireError> {
    let within =
        |range: &std::ops::Range<usize>, len: usize| range.start <= range.end && range.end <= len;
    let workflows = layout.workflows.len();
    let sound = layout.workflows.iter().all(|workflow| {
        within(&workflow.steps, layout.steps.len())
            && within(&workflow.checks, layout.checks.len())
            && within(&workflow.stages, layout.stages.len())
    }) && layout.steps.iter().all(|step| step.workflow < workflows)
        && layout.checks.iter().all(|check| check.step < layout.steps.len())
        && layout.stages.iter().all(|stage| stage.workflow < workflows);
    if sound { Ok(()) } else { Err(WireError::Contradiction { what: "the layout" }) }
}
