//! One slot of the history: what was counted in a stretch of the run.

use std::collections::BTreeMap;

use plan::MetricKind;
use serde::{Deserialize, Serialize};

use super::Exponential;
use crate::error_kind::ErrorKind;
use crate::result::HistoryPoint;
use crate::series::Sink;
use crate::window::{CustomValue, DropCause, StepStats, TagStats};

/// Answers by the first digit of their status.
const CLASSES: usize = 5;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Its end, since the run began.
    pub at_ns: u64,
    pub over_ns: u64,
    /// The most at any tick.
    pub vus: u64,
    pub iterations: u64,
    pub iterations_interrupted: u64,
    /// Indexed by [`DropCause`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Checks that held, and those that did not.
    pub checks: [u64; 2],
    /// CPU time that the generator used.
    pub busy_ns: u64,
    /// How late an event loop of the generator woke up, at worst.
    pub lag_max_ns: u64,
    /// By the number of the row, see [`History::rows`](super::History::rows).
    pub rows: BTreeMap<u32, Row>,
    /// By the number of the metric.
    pub metrics: BTreeMap<u32, MetricSlot>,
    /// What each threshold compared at the end of the slot.
    pub thresholds: Vec<Option<f64>>,
}

/// One step, or one of its tag values, within a slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub requests: u64,
    pub failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// 1xx to 5xx. Of a tag value it is not known, as bytes and kinds of errors are not.
    pub status: [u64; CLASSES],
    /// (number of the [`ErrorKind`], count), only those that occurred.
    pub errors: Vec<(u8, u64)>,
    /// From the intended start of a request to the last byte of its answer.
    pub latency: Exponential,
}

/// A custom metric within a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MetricSlot {
    Counter(f64),
    /// The last value.
    Gauge(f64),
    Rate {
        trues: u64,
        total: u64,
    },
    Trend(Exponential),
}

impl Row {
    pub(super) fn add_step(&mut self, step: &StepStats) {
        self.requests += step.requests;
        self.failed += step.failed;
        self.bytes_sent += step.bytes_sent;
        self.bytes_received += step.bytes_received;
        for (status, count) in step.status.iter() {
            let class = usize::from(status / 100).clamp(1, CLASSES) - 1;
            self.status[class] += count;
        }
        for (kind, count) in ErrorKind::ALL.into_iter().zip(step.errors) {
            self.add_error(kind as u8, count);
        }
        self.latency.add_sparse(&step.latency.to_sparse());
    }

    pub(super) fn add_tagged(&mut self, tagged: &TagStats) {
        self.requests += tagged.requests;
        self.failed += tagged.failed;
        self.latency.add_sparse(&tagged.latency.to_sparse());
    }

    fn add_error(&mut self, kind: u8, count: u64) {
        if count == 0 {
            return;
        }
        match self.errors.binary_search_by_key(&kind, |(known, _)| *known) {
            Ok(at) => self.errors[at].1 += count,
            Err(at) => self.errors.insert(at, (kind, count)),
        }
    }

    pub fn merge(&mut self, other: &Row) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.status.iter_mut().zip(other.status).for_each(|(sum, count)| *sum += count);
        other.errors.iter().for_each(|(kind, count)| self.add_error(*kind, *count));
        self.latency.merge(&other.latency);
    }
}

impl MetricSlot {
    /// `None`: nothing was recorded.
    pub(super) fn of_custom(value: &CustomValue) -> Option<MetricSlot> {
        match value {
            CustomValue::Counter { count: 0, .. } | CustomValue::Rate { total: 0, .. } => None,
            CustomValue::Counter { sum, .. } => Some(MetricSlot::Counter(*sum)),
            CustomValue::Gauge { value, min, max, .. } => {
                (min <= max).then_some(MetricSlot::Gauge(*value))
            }
            CustomValue::Rate { trues, total } => {
                Some(MetricSlot::Rate { trues: *trues, total: *total })
            }
            CustomValue::Trend(trend) => {
                let mut sum = Exponential::default();
                sum.add_sparse(&trend.to_sparse());
                (!sum.is_empty()).then_some(MetricSlot::Trend(sum))
            }
        }
    }

    pub(super) fn of_sink(sink: &Sink) -> Option<MetricSlot> {
        if sink.is_empty() {
            return None;
        }
        Some(match sink {
            Sink::Counter { sum, .. } => MetricSlot::Counter(*sum),
            Sink::Gauge { value, .. } => MetricSlot::Gauge(*value),
            Sink::Rate { trues, total } => MetricSlot::Rate { trues: *trues, total: *total },
            Sink::Trend(values) => {
                let mut sum = Exponential::default();
                sum.add_distribution(values);
                MetricSlot::Trend(sum)
            }
        })
    }

    pub fn kind(&self) -> MetricKind {
        match self {
            MetricSlot::Counter(_) => MetricKind::Counter,
            MetricSlot::Gauge(_) => MetricKind::Gauge,
            MetricSlot::Rate { .. } => MetricKind::Rate,
            MetricSlot::Trend(_) => MetricKind::Trend,
        }
    }

    /// `other` is later, or of the same time.
    pub(super) fn merge(&mut self, other: &MetricSlot) {
        match (self, other) {
            (MetricSlot::Counter(sum), MetricSlot::Counter(more)) => *sum += more,
            (MetricSlot::Gauge(value), MetricSlot::Gauge(later)) => *value = *later,
            (MetricSlot::Rate { trues, total }, MetricSlot::Rate { trues: t, total: n }) => {
                *trues += t;
                *total += n;
            }
            (MetricSlot::Trend(mine), MetricSlot::Trend(theirs)) => mine.merge(theirs),
            // Of another kind under the same number: not from this layout, and not counted.
            _ => debug_assert!(false, "one metric has one kind"),
        }
    }
}

impl Slot {
    /// The slot after this one becomes a part of it.
    pub(super) fn join(&mut self, next: &Slot) {
        self.at_ns = self.at_ns.max(next.at_ns);
        self.over_ns += next.over_ns;
        self.vus = self.vus.max(next.vus);
        self.iterations += next.iterations;
        self.iterations_interrupted += next.iterations_interrupted;
        self.dropped.iter_mut().zip(next.dropped).for_each(|(sum, count)| *sum += count);
        self.checks.iter_mut().zip(next.checks).for_each(|(sum, count)| *sum += count);
        self.busy_ns += next.busy_ns;
        self.lag_max_ns = self.lag_max_ns.max(next.lag_max_ns);
        for (row, counts) in &next.rows {
            self.rows.entry(*row).or_default().merge(counts);
        }
        for (metric, value) in &next.metrics {
            self.add_metric(*metric, value.clone());
        }
        if !next.thresholds.is_empty() {
            self.thresholds.clone_from(&next.thresholds);
        }
    }

    pub(super) fn add_metric(&mut self, metric: u32, value: MetricSlot) {
        match self.metrics.get_mut(&metric) {
            Some(known) => known.merge(&value),
            None => drop(self.metrics.insert(metric, value)),
        }
    }

    /// The sum of these rows, or of all.
    pub fn sum(&self, wanted: impl Fn(u32) -> bool) -> Row {
        let mut sum = Row::default();
        let rows = self.rows.iter().filter(|(row, _)| wanted(**row));
        rows.for_each(|(_, row)| sum.merge(row));
        sum
    }

    pub(super) fn point(&self, steps: impl Fn(u32) -> bool) -> HistoryPoint {
        let sum = self.sum(steps);
        HistoryPoint {
            at_s: self.at_ns as f64 / 1e9,
            over_s: self.over_ns as f64 / 1e9,
            requests: sum.requests,
            failed: sum.failed,
            vus: self.vus,
            p50_ms: sum.latency.percentile_ms(50.0),
            p95_ms: sum.latency.percentile_ms(95.0),
            p99_ms: sum.latency.percentile_ms(99.0),
        }
    }
}
