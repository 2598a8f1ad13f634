//! What a node counts (LEDG-164). Plain atomics; whoever exports them reads them as they are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A count that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by a name from a fixed set.
#[derive(Debug, Default)]
pub struct ByName(Mutex<BTreeMap<&'static str, u64>>);

impl ByName {
    pub fn add(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    pub fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

const BUCKETS: usize = 40;

/// Values by powers of two: bucket n has those below 2^n.
#[derive(Debug)]
pub struct Histogram([AtomicU64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Histogram {
    pub fn record(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn record_micros(&self, time: Duration) {
        self.record(time.as_micros() as u64);
    }

    /// (upper bound, how many at most that), cumulative, up to the highest bucket in use.
    pub fn cumulative(&self) -> Vec<(u64, u64)> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let mut sum = 0;
        counts[..used]
            .iter()
            .enumerate()
            .map(|(bucket, count)| {
                sum += count;
                ((1u64 << bucket) - 1, sum)
            })
            .collect()
    }
}

/// A node's counts.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Proposals by their result: committed, unknown, or the name of why not.
    pub proposals: ByName,
    /// Proposals that this node handed to the leader, and those that it was handed.
    pub forwarded: Counter,
    pub forwards_taken: Counter,
    /// Commands per log entry.
    pub batch_size: Histogram,
    /// From the call to the answer, of committed ones, in microseconds.
    pub commit_micros: Histogram,
    pub pre_votes_asked: Counter,
    pub pre_votes_granted: Counter,
    /// Looks at the leader's silence that came late, because this process was not run in time.
    pub late_ticks: Counter,
    /// Pre-votes that this node refused to others, by reason.
    pub pre_votes_refused: ByName,
    pub elections: Counter,
    /// How often this node became leader.
    pub leaderships: Counter,
    /// How often this node, leading, lost the majority.
    pub quorum_lost: Counter,
    /// Messages that were not taken, by reason.
    pub refusals: ByName,
    /// Reads by level and result.
    pub reads: ByName,
    pub blobs_put: Counter,
    pub blobs_fetched: Counter,
    pub blobs_collected: Counter,
    pub snapshots_sent: Counter,
    pub snapshots_taken: Counter,
    /// Connections that were given up and made anew.
    pub redials: Counter,
    /// Stamps of others that were too far ahead to be merged.
    pub clock_drift: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 1000] {
            histogram.record(value);
        }
        let cumulative = histogram.cumulative();
        assert_eq!(&cumulative[..4], &[(0, 1), (1, 2), (3, 4), (7, 5)]);
        assert_eq!(cumulative.last(), Some(&(1023, 6)));
        histogram.record(u64::MAX);
        assert_eq!(histogram.cumulative().last().map(|last| last.1), Some(7));
    }
}
