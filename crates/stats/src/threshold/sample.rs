//! What a threshold keeps of a stretch of time: as much as its metric's kind needs, and mergeable.

use std::time::Duration;

use plan::{Aggregation, MetricKind};

use crate::trend::Trend;

#[derive(Debug, Clone)]
pub(super) enum Sample {
    Counter(f64),
    Rate { hits: u64, total: u64 },
    Gauge(Option<Reading>),
    Trend(Trend),
}

/// A gauge's last value, and its extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    pub value: f64,
    pub at_ns: u64,
    pub min: f64,
    pub max: f64,
}

impl Sample {
    pub fn new(kind: MetricKind) -> Sample {
        match kind {
            MetricKind::Counter => Sample::Counter(0.0),
            MetricKind::Rate => Sample::Rate { hits: 0, total: 0 },
            MetricKind::Gauge => Sample::Gauge(None),
            MetricKind::Trend => Sample::Trend(Trend::new()),
        }
    }

    /// Back to nothing, memory kept.
    pub fn clear(&mut self) {
        match self {
            Sample::Counter(sum) => *sum = 0.0,
            Sample::Rate { hits, total } => (*hits, *total) = (0, 0),
            Sample::Gauge(reading) => *reading = None,
            Sample::Trend(trend) => trend.clear(),
        }
    }

    pub fn merge(&mut self, other: &Sample) {
        match (self, other) {
            (Sample::Counter(mine), Sample::Counter(theirs)) => *mine += theirs,
            (Sample::Rate { hits, total }, Sample::Rate { hits: h, total: t }) => {
                *hits += h;
                *total += t;
            }
            (Sample::Gauge(mine), Sample::Gauge(theirs)) => {
                *mine = match (*mine, *theirs) {
                    (Some(a), Some(b)) => Some(a.merged(b)),
                    (one, other) => one.or(other),
                };
            }
            (Sample::Trend(mine), Sample::Trend(theirs)) => mine.merge(theirs),
            _ => unreachable!("samples of one threshold are of one kind"),
        }
    }

    /// `None`: there is no value, or the metric's kind has no such aggregation.
    pub fn value(&self, aggregation: Aggregation, time: Duration) -> Option<f64> {
        match self {
            Sample::Counter(sum) => match aggregation {
                Aggregation::Count => Some(*sum),
                Aggregation::Rate if time.is_zero() => None,
                Aggregation::Rate => Some(sum / time.as_secs_f64()),
                _ => None,
            },
            Sample::Rate { total: 0, .. } => None,
            Sample::Rate { hits, total } => match aggregation {
                Aggregation::Rate => Some(*hits as f64 / *total as f64),
                Aggregation::Count => Some(*hits as f64),
                _ => None,
            },
            Sample::Gauge(reading) => reading.and_then(|reading| match aggregation {
                Aggregation::Value => Some(reading.value),
                Aggregation::Min => Some(reading.min),
                Aggregation::Max => Some(reading.max),
                _ => None,
            }),
            Sample::Trend(trend) if trend.is_empty() => None,
            Sample::Trend(trend) => match aggregation {
                Aggregation::Percentile(percent) => Some(trend.percentile_ms(percent)),
                Aggregation::Avg => Some(trend.mean_ms()),
                Aggregation::Min => Some(trend.min_ms()),
                Aggregation::Med => Some(trend.percentile_ms(50.0)),
                Aggregation::Max => Some(trend.max_ms()),
                Aggregation::Count => Some(trend.count() as f64),
                Aggregation::Rate | Aggregation::Value => None,
            },
        }
    }
}

impl Reading {
    pub fn of(value: f64, at_ns: u64) -> Reading {
        Reading { value, at_ns, min: value, max: value }
    }

    fn merged(self, other: Reading) -> Reading {
        // Of two values of one moment the larger counts, so that the order of merging does not.
        let later = (other.at_ns, other.value) > (self.at_ns, self.value);
        let last = if later { other } else { self };
        Reading { min: self.min.min(other.min), max: self.max.max(other.max), ..last }
    }
}
