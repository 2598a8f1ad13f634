//! What a metric keeps of its values, by kind.

use std::time::Duration;

use plan::{Aggregation, MetricKind};

use super::distribution::Distribution;

#[derive(Debug, Clone)]
pub enum Sink {
    Counter {
        sum: f64,
        /// Values that were added; a sum of 0 is not nothing.
        samples: u64,
    },
    /// The last value by time of recording, and the extremes. The largest starts from 0, as the
    /// reference has it: of negative values alone it is 0.
    Gauge {
        value: f64,
        at_ns: u64,
        min: f64,
        max: f64,
        samples: u64,
    },
    Rate {
        trues: u64,
        total: u64,
    },
    Trend(Box<Distribution>),
}

impl Sink {
    pub fn new(kind: MetricKind) -> Sink {
        match kind {
            MetricKind::Counter => Sink::Counter { sum: 0.0, samples: 0 },
            MetricKind::Gauge => {
                Sink::Gauge { value: 0.0, at_ns: 0, min: 0.0, max: 0.0, samples: 0 }
            }
            MetricKind::Rate => Sink::Rate { trues: 0, total: 0 },
            MetricKind::Trend => Sink::Trend(Box::default()),
        }
    }

    pub fn kind(&self) -> MetricKind {
        match self {
            Sink::Counter { .. } => MetricKind::Counter,
            Sink::Gauge { .. } => MetricKind::Gauge,
            Sink::Rate { .. } => MetricKind::Rate,
            Sink::Trend(_) => MetricKind::Trend,
        }
    }

    /// `at_ns` decides which value of a gauge is the last. NaN is left out.
    #[inline]
    pub fn record(&mut self, sample: f64, at_ns: u64) {
        match self {
            Sink::Trend(trend) => trend.record(sample),
            _ if sample.is_nan() => {}
            Sink::Counter { sum, samples } => {
                *sum += sample;
                *samples += 1;
            }
            Sink::Rate { trues, total } => {
                *trues += u64::from(sample != 0.0);
                *total += 1;
            }
            Sink::Gauge { value, at_ns: last, min, max, samples } => {
                *min = if *samples == 0 { sample } else { min.min(sample) };
                *max = max.max(sample);
                if *samples == 0 || at_ns >= *last {
                    (*value, *last) = (sample, at_ns);
                }
                *samples += 1;
            }
        }
    }

    /// # Panics
    /// If the two are of different kinds: both windows were made from one layout.
    pub fn merge(&mut self, other: &Sink) {
        match (self, other) {
            (Sink::Counter { sum, samples }, Sink::Counter { sum: s, samples: n }) => {
                *sum += s;
                *samples += n;
            }
            (mine @ Sink::Gauge { .. }, Sink::Gauge { .. }) => mine.merge_gauge(other),
            (Sink::Rate { trues, total }, Sink::Rate { trues: t, total: n }) => {
                *trues += t;
                *total += n;
            }
            (Sink::Trend(mine), Sink::Trend(theirs)) => mine.merge(theirs),
            _ => unreachable!("both windows were made from one layout"),
        }
    }

    fn merge_gauge(&mut self, other: &Sink) {
        let (
            Sink::Gauge { value, at_ns, min, max, samples },
            Sink::Gauge { value: v, at_ns: a, min: lo, max: hi, samples: n },
        ) = (&mut *self, other)
        else {
            return;
        };
        if *n == 0 {
            return;
        }
        if *samples == 0 {
            *self = other.clone();
            return;
        }
        // Two cores at one instant: the larger is as good as the smaller, if always the larger.
        if (*a, v.total_cmp(value)) > (*at_ns, std::cmp::Ordering::Equal) {
            (*value, *at_ns) = (*v, *a);
        }
        (*min, *max) = (min.min(*lo), max.max(*hi));
        *samples += n;
    }

    /// Forgets the values, keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Sink::Trend(trend) => trend.clear(),
            _ => *self = Sink::new(self.kind()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.samples() == 0
    }

    /// How many values came.
    pub fn samples(&self) -> u64 {
        match self {
            Sink::Counter { samples, .. } | Sink::Gauge { samples, .. } => *samples,
            Sink::Rate { total, .. } => *total,
            Sink::Trend(trend) => trend.count(),
        }
    }

    /// `None`: the kind lacks the aggregation, or it is the rate of nothing.
    ///
    /// `elapsed` is the time of the test so far, for the rate of a counter.
    pub fn value(&self, aggregation: Aggregation, elapsed: Duration) -> Option<f64> {
        Some(match (self, aggregation) {
            (Sink::Counter { sum, .. }, Aggregation::Count) => *sum,
            (Sink::Counter { sum, .. }, Aggregation::Rate) => per_second(*sum, elapsed),
            (Sink::Gauge { value, .. }, Aggregation::Value) => *value,
            (Sink::Gauge { min, .. }, Aggregation::Min) => *min,
            (Sink::Gauge { max, .. }, Aggregation::Max) => *max,
            (Sink::Rate { trues, total }, Aggregation::Rate) if *total > 0 => {
                *trues as f64 / *total as f64
            }
            (Sink::Trend(trend), Aggregation::Avg) => trend.avg(),
            (Sink::Trend(trend), Aggregation::Min) => trend.min(),
            (Sink::Trend(trend), Aggregation::Max) => trend.max(),
            (Sink::Trend(trend), Aggregation::Med) => trend.med(),
            (Sink::Trend(trend), Aggregation::Count) => trend.count() as f64,
            (Sink::Trend(trend), Aggregation::Percentile(percent)) => trend.percentile(percent),
            _ => return None,
        })
    }
}

/// In no time at all nothing has a rate.
pub(super) fn per_second(sum: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { sum / elapsed.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_keeps_the_last_by_time_and_starts_with_its_first_value() {
        let mut gauge = Sink::new(MetricKind::Gauge);
        for (value, at) in [(5.0, 10), (-3.0, 20), (2.0, 15)] {
            gauge.record(value, at);
        }
        let Sink::Gauge { value, min, max, .. } = gauge else { panic!() };
        assert_eq!((value, min, max), (-3.0, -3.0, 5.0));
        let mut gauge = Sink::new(MetricKind::Gauge);
        gauge.record(-1.0, 0);
        let Sink::Gauge { min, max, .. } = gauge else { panic!() };
        assert_eq!((min, max), (-1.0, 0.0));
    }

    #[test]
    fn nan_is_not_a_value_of_any_kind() {
        for kind in [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend] {
            let mut sink = Sink::new(kind);
            sink.record(f64::NAN, 1);
            assert!(sink.is_empty(), "{kind:?}");
            sink.record(f64::INFINITY, 1);
            assert!(!sink.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn the_rate_of_a_counter_is_per_second_of_the_test() {
        let mut counter = Sink::new(MetricKind::Counter);
        counter.record(3.0, 0);
        counter.record(7.0, 0);
        let value = |aggregation| counter.value(aggregation, Duration::from_secs(4));
        assert_eq!(value(Aggregation::Rate), Some(2.5));
        assert_eq!(value(Aggregation::Count), Some(10.0));
        assert_eq!(value(Aggregation::Avg), None);
        assert_eq!(counter.value(Aggregation::Rate, Duration::ZERO), Some(0.0));
        let rate = Sink::new(MetricKind::Rate);
        assert_eq!(rate.value(Aggregation::Rate, Duration::from_secs(1)), None);
    }
}
