//! What was measured: steps, stages and custom metrics.

use serde::Serialize;
use stats::{CustomValue, RunResult, StepStats};

use super::parts::{LatencyPart, PhasePart, RequestsPart};
use super::{Named, errors};
use crate::rollup::{Rollup, blocks};

#[derive(Debug, Serialize)]
pub struct StepPart {
    pub workflow: String,
    pub method: String,
    pub url: String,
    pub requests: RequestsPart,
    pub latency_ms: LatencyPart,
    pub service_ms: LatencyPart,
    pub phases_ms: Named<PhasePart>,
    pub status: Named<u64>,
    pub errors: Named<u64>,
    /// By values that only the run knew: `region=eu`.
    pub tags: Named<TagPart>,
    /// Requests counted under `other`, because the step had too many different tag values.
    pub tags_folded: u64,
    pub data_sent: u64,
    pub data_received: u64,
}

#[derive(Debug, Serialize)]
pub struct TagPart {
    pub count: u64,
    pub failed: u64,
    pub latency_ms: LatencyPart,
    pub service_ms: LatencyPart,
}

pub(super) fn steps(result: &RunResult, rollup: &Rollup) -> Named<StepPart> {
    let steps = rollup.steps.iter().zip(&result.layout.steps);
    Named(
        steps
            .map(|(total, layout)| {
                let stats = &total.stats;
                let part = StepPart {
                    workflow: result.layout.workflows[total.workflow].name.clone(),
                    method: layout.method.clone(),
                    url: layout.route.clone(),
                    requests: RequestsPart::new(stats, total.rate),
                    latency_ms: LatencyPart::new(&stats.latency),
                    service_ms: LatencyPart::new(&stats.duration),
                    phases_ms: phases(stats),
                    status: status(stats),
                    errors: errors(&stats.errors),
                    tags: tags(stats),
                    tags_folded: stats.tags_folded,
                    data_sent: stats.bytes_sent,
                    data_received: stats.bytes_received,
                };
                (total.key.clone(), part)
            })
            .collect(),
    )
}

fn phases(stats: &StepStats) -> Named<PhasePart> {
    let phases = [
        ("blocked", &stats.blocked),
        ("connecting", &stats.connecting),
        ("tls_handshaking", &stats.tls_handshaking),
        ("sending", &stats.sending),
        ("waiting", &stats.waiting),
        ("receiving", &stats.receiving),
    ];
    Named(phases.map(|(name, trend)| (name.to_owned(), PhasePart::new(trend))).into())
}

fn status(stats: &StepStats) -> Named<u64> {
    let mut counts: Vec<(u16, u64)> = stats.status.iter().collect();
    counts.sort_unstable();
    Named(counts.into_iter().map(|(status, count)| (status.to_string(), count)).collect())
}

fn tags(stats: &StepStats) -> Named<TagPart> {
    let mut tagged: Vec<_> = stats.tagged.iter().collect();
    tagged.sort_by(|a, b| a.0.cmp(&b.0));
    let parts = tagged.into_iter().map(|(tags, stats)| {
        let part = TagPart {
            count: stats.requests,
            failed: stats.failed,
            latency_ms: LatencyPart::new(&stats.latency),
            service_ms: LatencyPart::new(&stats.duration),
        };
        (tags.to_string(), part)
    });
    Named(parts.collect())
}

#[derive(Debug, Serialize)]
pub struct StagePart {
    pub workflow: String,
    pub name: String,
    pub count: u64,
    pub failed: u64,
    pub iterations: u64,
    pub latency_ms: LatencyPart,
    pub service_ms: LatencyPart,
}

pub(super) fn stages(result: &RunResult) -> Vec<StagePart> {
    blocks(result)
        .map(|(stage, block)| {
            let total = stats::totals::stage_total(&result.totals, &result.layout, stage);
            StagePart {
                workflow: result.layout.workflow_of_stage(stage).name.clone(),
                name: result.layout.stages[stage].name.clone(),
                count: total.requests,
                failed: total.failed,
                iterations: block.iterations,
                latency_ms: LatencyPart::new(&total.latency),
                service_ms: LatencyPart::new(&total.duration),
            }
        })
        .collect()
}

/// Custom metrics, with k6's names for the values of each type.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MetricPart {
    Counter {
        count: f64,
        rate: f64,
    },
    /// `null` if it was never set.
    Gauge {
        value: Option<f64>,
        min: Option<f64>,
        max: Option<f64>,
    },
    Rate {
        rate: f64,
        passes: u64,
        fails: u64,
    },
    /// In milliseconds if `time`, else in the unit of the values.
    Trend {
        time: bool,
        count: u64,
        values: LatencyPart,
    },
}

pub(super) fn metrics(result: &RunResult, rollup: &Rollup) -> Named<MetricPart> {
    let elapsed = result.elapsed.as_secs_f64();
    let metrics = result.layout.metrics.iter().zip(&rollup.all.metrics);
    let parts = metrics.map(|(layout, value)| {
        let part = match value {
            CustomValue::Counter { sum, .. } => {
                let rate = if elapsed > 0.0 { sum / elapsed } else { 0.0 };
                MetricPart::Counter { count: *sum, rate }
            }
            CustomValue::Gauge { value, min, max, .. } => {
                let known = |v: f64| (min <= max).then_some(v);
                MetricPart::Gauge { value: known(*value), min: known(*min), max: known(*max) }
            }
            CustomValue::Rate { trues, total } => MetricPart::Rate {
                rate: if *total == 0 { 0.0 } else { *trues as f64 / *total as f64 },
                passes: *trues,
                fails: total - trues,
            },
            CustomValue::Trend(trend) => MetricPart::Trend {
                time: layout.time,
                count: trend.count(),
                values: LatencyPart::new(trend),
            },
        };
        (layout.name.clone(), part)
    });
    Named(parts.collect())
}
