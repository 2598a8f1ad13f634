//! What of the thresholds survives a change of owner.
//!
//! Sums are kept whole. Of a sliding window its verdict so far is kept, and not the ring: up to 600
//! slots would be written with every checkpoint. After the change it fills anew, and judges again
//! once it is full.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sample::{Reading, Sample};
use super::{Evaluator, Kept};
use crate::trend::{SparseTrend, Trend};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedEvaluator {
    watches: Vec<SavedWatch>,
    vus_max: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedWatch {
    counted: Duration,
    idle: Duration,
    kept: SavedKept,
}

#[derive(Debug, Serialize, Deserialize)]
enum SavedKept {
    Counter(f64),
    Rate { hits: u64, total: u64 },
    Gauge(Option<[f64; 3]>, u64),
    Trend(SparseTrend),
    Sliding { has_been_full: bool, worst: Option<f64>, broken: bool },
}

impl Evaluator {
    pub(crate) fn save(&self) -> SavedEvaluator {
        let kept = |kept: &Kept| match kept {
            Kept::Cumulative(Sample::Counter(sum)) => SavedKept::Counter(*sum),
            Kept::Cumulative(Sample::Rate { hits, total }) => {
                SavedKept::Rate { hits: *hits, total: *total }
            }
            Kept::Cumulative(Sample::Gauge(reading)) => SavedKept::Gauge(
                reading.map(|reading| [reading.value, reading.min, reading.max]),
                reading.map_or(0, |reading| reading.at_ns),
            ),
            Kept::Cumulative(Sample::Trend(trend)) => SavedKept::Trend(trend.to_sparse()),
            Kept::Sliding(sliding) => {
                let (has_been_full, worst, broken) = sliding.so_far();
                SavedKept::Sliding { has_been_full, worst, broken }
            }
        };
        let watches = self.watches.iter().map(|watch| SavedWatch {
            counted: watch.active.counted,
            idle: watch.active.idle,
            kept: kept(&watch.kept),
        });
        SavedEvaluator { watches: watches.collect(), vus_max: self.vus_max }
    }

    /// `None`: it was saved for other thresholds.
    pub(crate) fn restore(&mut self, saved: SavedEvaluator) -> Option<()> {
        if saved.watches.len() != self.watches.len() {
            return None;
        }
        self.vus_max = saved.vus_max;
        for (watch, saved) in self.watches.iter_mut().zip(saved.watches) {
            (watch.active.counted, watch.active.idle) = (saved.counted, saved.idle);
            match (&mut watch.kept, saved.kept) {
                (Kept::Cumulative(Sample::Counter(sum)), SavedKept::Counter(saved)) => *sum = saved,
                (
                    Kept::Cumulative(Sample::Rate { hits, total }),
                    SavedKept::Rate { hits: h, total: t },
                ) => (*hits, *total) = (h, t),
                (Kept::Cumulative(Sample::Gauge(reading)), SavedKept::Gauge(saved, at_ns)) => {
                    *reading = saved.map(|[value, min, max]| Reading { value, at_ns, min, max });
                }
                (Kept::Cumulative(Sample::Trend(trend)), SavedKept::Trend(saved)) => {
                    if !saved.is_sound() {
                        return None;
                    }
                    *trend = Trend::new();
                    trend.merge_sparse(&saved);
                }
                (Kept::Sliding(sliding), SavedKept::Sliding { has_been_full, worst, broken }) => {
                    sliding.take_up(has_been_full, worst, broken);
                }
                _ => return None,
            }
        }
        Some(())
    }
}
