//! A distribution of times: a histogram for percentiles, and exact count, sum, minimum and maximum
//! beside it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Largest relative error of a percentile: three significant digits.
pub const RELATIVE_ERROR: f64 = 0.001;

/// Times are recorded in nanoseconds and kept in the histogram as microseconds. Values that are not
/// times (custom trends) are recorded as `value * 1e6`, so that every reader may speak of
/// milliseconds.
#[derive(Clone)]
pub struct Trend {
    histogram: Histogram<u64>,
    /// Zeros are counted apart: a reused connection has no connect time, and most are reused.
    zeros: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// A trend's buckets that are in use, for keeping and sending many of them: a few hundred numbers
/// instead of thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseTrend {
    /// (number of the bucket, count), in rising order, no count zero.
    pub(crate) buckets: Vec<(u32, u64)>,
    pub(crate) zeros: u64,
    pub(crate) sum_ns: u128,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl Default for SparseTrend {
    fn default() -> Self {
        SparseTrend { buckets: Vec::new(), zeros: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl SparseTrend {
    pub fn count(&self) -> u64 {
        self.zeros + self.buckets.iter().map(|(_, count)| count).sum::<u64>()
    }

    pub fn is_empty(&self) -> bool {
        self.zeros == 0 && self.buckets.is_empty()
    }

    /// Whether it could have been counted: buckets that exist, in rising order, none empty.
    pub(crate) fn is_sound(&self) -> bool {
        let exist = self.buckets.iter().all(|(bucket, count)| *bucket < BUCKETS && *count > 0);
        exist && self.buckets.is_sorted_by(|a, b| a.0 < b.0)
    }

    /// As of the trend that it was made from.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        let mut trend = Trend::new();
        trend.merge_sparse(self);
        trend.percentile_ms(percent)
    }

    /// The same as merging the trends that both were made from.
    pub fn merge(&mut self, other: &SparseTrend) {
        if other.is_empty() {
            return;
        }
        self.zeros += other.zeros;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        let mut mine = std::mem::take(&mut self.buckets).into_iter().peekable();
        let mut theirs = other.buckets.iter().copied().peekable();
        let mut merged = Vec::with_capacity(mine.len() + theirs.len());
        while let (Some(a), Some(b)) = (mine.peek().copied(), theirs.peek().copied()) {
            merged.push(match a.0.cmp(&b.0) {
                std::cmp::Ordering::Less => a,
                std::cmp::Ordering::Greater => b,
                std::cmp::Ordering::Equal => (a.0, a.1 + b.1),
            });
            if a.0 <= b.0 {
                mine.next();
            }
            if b.0 <= a.0 {
                theirs.next();
            }
        }
        merged.extend(mine);
        merged.extend(theirs);
        self.buckets = merged;
    }
}

/// Buckets of three significant digits, as the histogram cuts them: 2,048 of one microsecond, then
/// 1,024 for each further power of two.
pub(crate) const BUCKETS: u32 = 55 << 10;

fn bucket_of(us: u64) -> u32 {
    let power = 53u32.saturating_sub((us | 2047).leading_zeros());
    (power << 10) + (us >> power) as u32
}

/// The smallest value of a bucket, in microseconds.
pub(crate) fn bucket_start(bucket: u32) -> u64 {
    let power = (bucket >> 10).saturating_sub(1);
    u64::from(bucket - (power << 10)) << power
}

impl Default for Trend {
    fn default() -> Self {
        Trend::new()
    }
}

impl std::fmt::Debug for Trend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trend")
            .field("count", &self.count())
            .field("mean_ms", &self.mean_ms())
            .finish()
    }
}

impl Trend {
    /// Grows with the largest value seen: an idle trend takes a few kilobytes.
    pub fn new() -> Self {
        let histogram = Histogram::new(3).expect("three digits are legal");
        Trend { histogram, zeros: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    #[inline]
    pub fn record_ns(&mut self, ns: u64) {
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        // Fails only if the counts array cannot grow to 2^64 microseconds, which it can.
        let _ = self.histogram.record(ns / 1000);
    }

    #[inline]
    pub fn record_zero(&mut self) {
        self.zeros += 1;
        self.min_ns = 0;
    }

    pub fn merge(&mut self, other: &Trend) {
        if other.is_empty() {
            return;
        }
        if !other.histogram.is_empty() {
            self.histogram
                .add(&other.histogram)
                .expect("an auto-resizing histogram takes any value");
        }
        self.zeros += other.zeros;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn to_sparse(&self) -> SparseTrend {
        let mut buckets = Vec::new();
        if !self.histogram.is_empty() {
            // Only the stretch that is in use is looked at; the bucket of zero lies before it.
            let zero = self.histogram.count_at(0);
            if zero > 0 {
                buckets.push((0, zero));
            }
            let last = bucket_of(self.histogram.max());
            let first = self.histogram.min_nz();
            if first <= self.histogram.max() {
                for bucket in bucket_of(first)..=last {
                    let count = self.histogram.count_at(bucket_start(bucket));
                    if count > 0 {
                        buckets.push((bucket, count));
                    }
                }
            }
        }
        SparseTrend {
            buckets,
            zeros: self.zeros,
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        }
    }

    /// The same as merging the trend that it was made from.
    pub fn merge_sparse(&mut self, other: &SparseTrend) {
        for (bucket, count) in &other.buckets {
            // As in `record_ns`: the counts array can always grow.
            let _ = self.histogram.record_n(bucket_start(*bucket), *count);
        }
        self.zeros += other.zeros;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets the values, keeps the memory.
    pub fn clear(&mut self) {
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.zeros = 0;
        self.sum_ns = 0;
        self.min_ns = u64::MAX;
        self.max_ns = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub fn count(&self) -> u64 {
        self.histogram.len() + self.zeros
    }

    pub fn sum_ms(&self) -> f64 {
        self.sum_ns as f64 / 1e6
    }

    pub fn mean_ms(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum_ms() / self.count() as f64 }
    }

    pub fn min_ms(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.min_ns as f64 / 1e6 }
    }

    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// The value below or at which `percent` of all values lie; never outside [min, max].
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        // The rank counts the zeros first: they are the smallest values.
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        if rank <= self.zeros {
            return 0.0;
        }
        let in_histogram = (rank - self.zeros) as f64 / self.histogram.len() as f64;
        let us = self.histogram.value_at_quantile(in_histogram.clamp(0.0, 1.0));
        // The highest value of the bucket is reported; the exact bounds are known better.
        (us as f64 / 1e3).clamp(self.min_ms(), self.max_ms())
    }

    /// (value in ms, count at this value, cumulative count) for plots.
    pub fn buckets(&self) -> Vec<(f64, u64, u64)> {
        let mut out = Vec::new();
        let mut cumulative = self.zeros;
        if self.zeros > 0 {
            out.push((0.0, self.zeros, cumulative));
        }
        for value in self.histogram.iter_recorded() {
            cumulative += value.count_at_value();
            out.push((value.value_iterated_to() as f64 / 1e3, value.count_at_value(), cumulative));
        }
        out
    }

    /// Bytes held, for the promise that memory does not grow with the run.
    pub fn memory_bytes(&self) -> usize {
        self.histogram.distinct_values() * size_of::<u64>() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_stay_within_the_stated_error_and_the_exact_bounds() {
        let mut trend = Trend::new();
        for us in 1..=100_000u64 {
            trend.record_ns(us * 1000);
        }
        for percent in [1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
            let exact = percent / 100.0 * 100.0;
            let got = trend.percentile_ms(percent);
            assert!(
                (got - exact).abs() / exact <= 1.5 * RELATIVE_ERROR,
                "p{percent}: {got} for {exact}"
            );
        }
        assert_eq!(trend.max_ms(), 100.0);
        assert_eq!(trend.min_ms(), 0.001);
        assert!(trend.percentile_ms(100.0) <= trend.max_ms());
    }

    #[test]
    fn zeros_count_as_values() {
        let mut trend = Trend::new();
        for _ in 0..90 {
            trend.record_zero();
        }
        for _ in 0..10 {
            trend.record_ns(5_000_000);
        }
        assert_eq!(trend.count(), 100);
        assert_eq!(trend.percentile_ms(90.0), 0.0);
        assert_eq!(trend.percentile_ms(91.0), 5.0);
        assert_eq!(trend.mean_ms(), 0.5);
    }

    #[test]
    fn buckets_are_numbered_as_the_histogram_cuts_them() {
        let histogram = Histogram::<u64>::new(3).unwrap();
        for us in (0..5000).chain((12..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1, power + power / 3, power.wrapping_mul(2).wrapping_sub(1)]
        })) {
            let bucket = bucket_of(us);
            assert!(bucket < BUCKETS, "{us}");
            assert_eq!(bucket_start(bucket), histogram.lowest_equivalent(us), "{us}");
            assert_eq!(bucket_of(bucket_start(bucket)), bucket, "{us}");
        }
    }

    #[test]
    fn merging_in_any_order_gives_the_same_distribution() {
        let (mut a, mut b) = (Trend::new(), Trend::new());
        for i in 0..1000u64 {
            if i % 3 == 0 { &mut a } else { &mut b }.record_ns(i * i * 1000);
        }
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab.buckets(), ba.buckets());
        assert_eq!(ab.sum_ms(), ba.sum_ms());
        assert_eq!(ab.count(), 1000);
    }
}
