//! The pieces of the summary document, one type per kind of object in it.

use std::time::Duration;

use serde::Serialize;
use stats::{
    ErrorKind, FailureSample, GeneratorStats, HistoryPoint, Issued, RunResult, StepStats,
    ThresholdResult, TimelineEntry, Trend, Unit, WorkflowStatus,
};

use super::{Named, dropped};
use crate::rollup::Rollup;

/// `count = answered + failed without an answer + interrupted + retried`.
#[derive(Debug, Serialize)]
pub struct RequestsPart {
    /// All requests that were begun.
    pub count: u64,
    /// Of these, written to a connection: what a target may have seen.
    pub sent: u64,
    /// Broken exchanges and unexpected statuses.
    pub failed: u64,
    /// Cut off by the end of the run; neither answered nor failed.
    pub interrupted: u64,
    /// Written to a kept-alive connection that had just been closed, and sent again.
    pub retried: u64,
    /// Per second: of the run for totals, of the time their workflow was active for steps.
    pub rate: f64,
}

impl RequestsPart {
    pub(super) fn new(stats: &StepStats, rate: f64) -> RequestsPart {
        RequestsPart {
            count: stats.requests,
            sent: stats.sent,
            failed: stats.failed,
            interrupted: stats.interrupted,
            retried: stats.retried,
            rate,
        }
    }
}

/// The requests of the whole run.
#[derive(Debug, Serialize)]
pub struct AllRequestsPart {
    #[serde(flatten)]
    pub requests: RequestsPart,
    /// Counted before each is written: completed <= seen by the target <= issued. `null` if nothing
    /// bounds it.
    pub issued: Option<u64>,
    /// `exact`, `bound` or `unknown`.
    pub issued_is: &'static str,
}

impl AllRequestsPart {
    pub(super) fn new(stats: &StepStats, rate: f64, issued: Issued) -> AllRequestsPart {
        let requests = RequestsPart::new(stats, rate);
        AllRequestsPart { requests, issued: issued.count(), issued_is: issued.name() }
    }
}

/// All zero if nothing was measured.
#[derive(Debug, Serialize)]
pub struct LatencyPart {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl LatencyPart {
    pub(super) fn new(trend: &Trend) -> LatencyPart {
        LatencyPart {
            min: trend.min_ms(),
            mean: trend.mean_ms(),
            p50: trend.percentile_ms(50.0),
            p90: trend.percentile_ms(90.0),
            p95: trend.percentile_ms(95.0),
            p99: trend.percentile_ms(99.0),
            p999: trend.percentile_ms(99.9),
            max: trend.max_ms(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct PhasePart {
    pub mean: f64,
    pub p95: f64,
    pub max: f64,
}

impl PhasePart {
    pub(super) fn new(trend: &Trend) -> PhasePart {
        let (mean, p95, max) = (trend.mean_ms(), trend.percentile_ms(95.0), trend.max_ms());
        PhasePart { mean, p95, max }
    }
}

#[derive(Debug, Serialize)]
pub struct WorkflowPart {
    /// `completed`, `failed`, `skipped` or `stopped`.
    pub status: &'static str,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started_s: f64,
    pub ended_s: f64,
    pub iterations: u64,
    pub iterations_interrupted: u64,
    pub dropped: Named<u64>,
    pub late_starts: u64,
    pub start_lag_ms: PhasePart,
    pub vus_max: u64,
    pub cores: usize,
}

pub(super) fn workflows(result: &RunResult, rollup: &Rollup) -> Named<WorkflowPart> {
    let hollow = stats::Block::default();
    let parts = result.workflows.iter().map(|workflow| {
        let index = result.layout.workflows.iter().position(|other| other.name == workflow.name);
        let block = index.map_or(&hollow, |index| &rollup.workflows[index]);
        let (status, reason) = match &workflow.status {
            WorkflowStatus::Completed => ("completed", None),
            WorkflowStatus::Failed { error } => ("failed", Some(error.clone())),
            WorkflowStatus::Skipped { because_of } => {
                ("skipped", Some(format!("dependency_failed: {because_of}")))
            }
            WorkflowStatus::Stopped => ("stopped", None),
        };
        let part = WorkflowPart {
            status,
            reason,
            started_s: workflow.started.as_secs_f64(),
            ended_s: workflow.ended.as_secs_f64(),
            iterations: block.iterations,
            iterations_interrupted: block.iterations_interrupted,
            dropped: dropped(&block.dropped),
            late_starts: block.late_starts,
            start_lag_ms: PhasePart::new(&block.start_lag),
            vus_max: workflow.vus_max,
            cores: workflow.cores,
        };
        (workflow.name.clone(), part)
    });
    Named(parts.collect())
}

#[derive(Debug, Serialize)]
pub struct CheckPart {
    pub step: String,
    pub passes: u64,
    pub fails: u64,
}

pub(super) fn checks(rollup: &Rollup) -> Named<CheckPart> {
    let parts = rollup.checks.iter().map(|check| {
        let step = rollup.steps[check.step].key.clone();
        let (passes, fails) = (check.count.passes, check.count.fails);
        (check.key.clone(), CheckPart { step, passes, fails })
    });
    Named(parts.collect())
}

#[derive(Debug, Serialize)]
pub struct ThresholdPart {
    pub metric: String,
    pub label: String,
    pub hold: String,
    /// `null`: nothing was measured.
    pub value: Option<f64>,
    pub ok: bool,
    /// `ms`, `fraction`, `per_second`, `count` or `plain`.
    pub unit: &'static str,
    pub abort: bool,
}

impl ThresholdPart {
    pub(super) fn new(threshold: &ThresholdResult) -> ThresholdPart {
        ThresholdPart {
            metric: threshold.metric.clone(),
            label: threshold.label.clone(),
            hold: threshold.hold.clone(),
            value: threshold.value,
            ok: threshold.ok,
            unit: match threshold.unit {
                Unit::Milliseconds => "ms",
                Unit::Fraction => "fraction",
                Unit::PerSecond => "per_second",
                Unit::Count => "count",
                Unit::Plain => "plain",
            },
            abort: threshold.abort,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ErrorSamplePart {
    pub kind: ErrorKind,
    pub step: String,
    pub count: u64,
    pub at_s: f64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// Some more, some time apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<LaterPart>,
}

#[derive(Debug, Serialize)]
pub struct LaterPart {
    pub at_s: f64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
}

impl LaterPart {
    fn new(sample: &FailureSample) -> LaterPart {
        let (message, exchange) = (sample.message.clone(), sample.exchange.clone());
        LaterPart { at_s: sample.at.as_secs_f64(), message, exchange }
    }
}

pub(super) fn error_samples(result: &RunResult, rollup: &Rollup) -> Vec<ErrorSamplePart> {
    let samples = result.error_samples.iter();
    samples
        .filter(|sample| sample.count > 0)
        .map(|sample| ErrorSamplePart {
            kind: sample.kind,
            step: rollup.steps.get(sample.step).map_or_else(String::new, |step| step.key.clone()),
            count: sample.count,
            at_s: sample.at.as_secs_f64(),
            message: sample.message.clone(),
            exchange: sample.exchange.clone(),
            later: sample.later.iter().map(LaterPart::new).collect(),
        })
        .collect()
}

#[derive(Debug, Serialize)]
pub struct TimelinePart {
    pub at_s: f64,
    pub event: String,
}

impl TimelinePart {
    pub(super) fn new(entry: &TimelineEntry) -> TimelinePart {
        TimelinePart { at_s: entry.at.as_secs_f64(), event: entry.event.clone() }
    }
}

#[derive(Debug, Serialize)]
pub struct GeneratorPart {
    pub cores: usize,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub memory_max_bytes: u64,
    pub descriptors_max: u64,
    pub descriptors_limit: u64,
    pub loop_lag_p99_ms: f64,
    pub loop_lag_max_ms: f64,
    pub busiest_core: f64,
}

impl GeneratorPart {
    pub(super) fn new(generator: &GeneratorStats) -> GeneratorPart {
        let seconds = |time: Duration| time.as_secs_f64();
        GeneratorPart {
            cores: generator.cores,
            cpu_user_s: seconds(generator.cpu_user),
            cpu_system_s: seconds(generator.cpu_system),
            memory_max_bytes: generator.memory_max_bytes,
            descriptors_max: generator.descriptors_max,
            descriptors_limit: generator.descriptors_limit,
            loop_lag_p99_ms: generator.loop_lag_p99_ms,
            loop_lag_max_ms: generator.loop_lag_max_ms,
            busiest_core: generator.busiest_core,
        }
    }
}

/// One interval of the run.
#[derive(Debug, Serialize)]
pub struct HistoryPart {
    pub at_s: f64,
    pub over_s: f64,
    pub requests: u64,
    pub failed: u64,
    pub vus: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

impl HistoryPart {
    pub(super) fn new(point: &HistoryPoint) -> HistoryPart {
        let HistoryPoint { at_s, over_s, requests, failed, vus, p50_ms, p95_ms, p99_ms } = *point;
        HistoryPart { at_s, over_s, requests, failed, vus, p50_ms, p95_ms, p99_ms }
    }
}
