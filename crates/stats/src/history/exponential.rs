//! A small histogram of times for the history: buckets that widen by the same factor, only those
//! in use.
//!
//! Bucket `i` holds times above 2^(i/16) seconds and up to 2^((i+1)/16). That is OpenTelemetry's
//! exponential histogram of scale 4 and Prometheus' native histogram of schema 4 (whose index is
//! one larger), so exports need no other buckets. A bucket stands for its middle, which is at most
//! [`RELATIVE_ERROR`] away from any time in it.

use serde::{Deserialize, Serialize};

use crate::series::Distribution;
use crate::trend::{SparseTrend, bucket_start};

/// Buckets for each power of two: 2 to the power of the scale.
pub const BUCKETS_PER_OCTAVE: i32 = 16;
/// 4: OpenTelemetry's scale and Prometheus' schema.
pub const SCALE: u32 = 4;
/// Largest relative error of a percentile.
pub const RELATIVE_ERROR: f64 = 0.022;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Flat", try_from = "Flat")]
pub struct Exponential {
    /// (bucket, count), in rising order, no count zero.
    buckets: Vec<(i16, u64)>,
    zeros: u64,
    sum_ns: u128,
    max_ns: u64,
}

/// As it is kept and sent: buckets as distances.
#[derive(Clone, Serialize, Deserialize)]
struct Flat {
    zeros: u64,
    sum_ns: u128,
    max_ns: u64,
    first: i16,
    /// Count, then distance and count of each further bucket.
    rest: Vec<u64>,
}

impl From<Exponential> for Flat {
    fn from(from: Exponential) -> Flat {
        let first = from.buckets.first().map_or(0, |(bucket, _)| *bucket);
        let mut rest = Vec::with_capacity(from.buckets.len() * 2);
        let mut last = first;
        for (at, (bucket, count)) in from.buckets.iter().enumerate() {
            if at > 0 {
                rest.push(u64::from(bucket.abs_diff(last)));
            }
            rest.push(*count);
            last = *bucket;
        }
        Flat { zeros: from.zeros, sum_ns: from.sum_ns, max_ns: from.max_ns, first, rest }
    }
}

impl TryFrom<Flat> for Exponential {
    type Error = &'static str;

    fn try_from(flat: Flat) -> Result<Exponential, &'static str> {
        let mut buckets = Vec::with_capacity(flat.rest.len().div_ceil(2));
        let mut bucket = flat.first;
        for (at, number) in flat.rest.iter().enumerate() {
            if at % 2 == 1 {
                let distance = i16::try_from(*number).map_err(|_| "a bucket that is too far")?;
                bucket = bucket.checked_add(distance).ok_or("a bucket that is too far")?;
            }
            if *number == 0 {
                return Err("an empty bucket, or one that is there twice");
            }
            if at % 2 == 0 {
                buckets.push((bucket, *number));
            }
        }
        if flat.rest.len().is_multiple_of(2) && !flat.rest.is_empty() {
            return Err("a bucket without a count");
        }
        Ok(Exponential { buckets, zeros: flat.zeros, sum_ns: flat.sum_ns, max_ns: flat.max_ns })
    }
}

/// The bucket of a time; what is shorter than a nanosecond counts as one.
fn bucket_of(seconds: f64) -> i16 {
    let position = (seconds.max(1e-9).log2() * f64::from(BUCKETS_PER_OCTAVE)).ceil();
    (position as i16).saturating_sub(1)
}

/// The middle of a bucket, in milliseconds: as far from both ends, as factors go.
fn middle_ms(bucket: i16) -> f64 {
    1e3 * ((f64::from(bucket) + 0.5) / f64::from(BUCKETS_PER_OCTAVE)).exp2()
}

impl Exponential {
    pub fn count(&self) -> u64 {
        self.zeros + self.buckets.iter().map(|(_, count)| count).sum::<u64>()
    }

    pub fn is_empty(&self) -> bool {
        self.zeros == 0 && self.buckets.is_empty()
    }

    /// (bucket, count), in rising order.
    pub fn buckets(&self) -> &[(i16, u64)] {
        &self.buckets
    }

    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    pub fn sum_ms(&self) -> f64 {
        self.sum_ns as f64 / 1e6
    }

    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    fn add(&mut self, bucket: i16, count: u64) {
        match self.buckets.last_mut() {
            Some((last, sum)) if *last == bucket => *sum += count,
            Some((last, _)) if *last > bucket => {
                match self.buckets.binary_search_by_key(&bucket, |(known, _)| *known) {
                    Ok(at) => self.buckets[at].1 += count,
                    Err(at) => self.buckets.insert(at, (bucket, count)),
                }
            }
            _ => self.buckets.push((bucket, count)),
        }
    }

    /// The same, from the finer buckets of the totals.
    pub fn add_sparse(&mut self, trend: &SparseTrend) {
        if trend.is_empty() {
            return;
        }
        for (bucket, count) in &trend.buckets {
            let (low, high) = (bucket_start(*bucket), bucket_start(*bucket + 1));
            self.add(bucket_of((low as f64 + high as f64) / 2e6), *count);
        }
        self.zeros += trend.zeros;
        self.sum_ns += trend.sum_ns;
        self.max_ns = self.max_ns.max(trend.max_ns);
    }

    /// The same, from a script's trend, whose values are milliseconds or are shown as such. What is
    /// below zero counts as zero.
    pub fn add_distribution(&mut self, values: &Distribution) {
        let mut below = 0;
        values.each(|value, count| match value > 0.0 {
            true => self.add(bucket_of(value / 1e3), count),
            false => below += count,
        });
        self.zeros += below;
        self.sum_ns += (values.sum().max(0.0) * 1e6) as u128;
        self.max_ns = self.max_ns.max((values.max().max(0.0) * 1e6) as u64);
    }

    /// The same as counting the values of both.
    pub fn merge(&mut self, other: &Exponential) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            other.buckets.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
        }
        self.zeros += other.zeros;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The value below or at which `percent` of all values lie; never above the largest.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = self.zeros;
        if rank <= seen {
            return 0.0;
        }
        for (bucket, count) in &self.buckets {
            seen += count;
            if rank <= seen {
                return middle_ms(*bucket).min(self.max_ms());
            }
        }
        self.max_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trend::Trend;

    fn of(times_us: &[u64]) -> (Exponential, Trend) {
        let mut trend = Trend::new();
        times_us.iter().for_each(|us| trend.record_ns(us * 1000));
        let mut small = Exponential::default();
        small.add_sparse(&trend.to_sparse());
        (small, trend)
    }

    #[test]
    fn percentiles_stay_within_the_stated_error_of_the_totals() {
        let times: Vec<u64> = (0..20_000u64).map(|n| 40 + n * n % 3_000_017).collect();
        let (small, trend) = of(&times);
        assert_eq!(small.count(), trend.count());
        assert_eq!(small.max_ms(), trend.max_ms());
        for percent in [1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
            let (near, exact) = (small.percentile_ms(percent), trend.percentile_ms(percent));
            let error = (near - exact).abs() / exact;
            assert!(error <= RELATIVE_ERROR + 0.0015, "p{percent}: {near} for {exact}");
        }
    }

    #[test]
    fn buckets_are_those_of_opentelemetry() {
        // Upper ends belong to their bucket: exactly one second is in bucket -1.
        assert_eq!(bucket_of(1.0), -1);
        assert_eq!(bucket_of(1.0001), 0);
        assert_eq!(bucket_of(2.0), 15);
        assert_eq!(bucket_of(0.5), -17);
        assert!(bucket_of(0.0) < bucket_of(1e-8));
    }

    #[test]
    fn what_is_written_is_read_again_and_nonsense_is_refused() {
        let (small, _) = of(&[1, 5, 5, 900, 1_000_000, 7_000_000]);
        let bytes = postcard::to_stdvec(&small).unwrap();
        assert_eq!(postcard::from_bytes::<Exponential>(&bytes).unwrap(), small);
        let flat = |rest: Vec<u64>| Flat { zeros: 0, sum_ns: 0, max_ns: 0, first: 3, rest };
        for wrong in [vec![0], vec![1, 1], vec![1, 0, 1], vec![1, 40_000, 1], vec![1, 2, 0]] {
            assert!(Exponential::try_from(flat(wrong.clone())).is_err(), "{wrong:?}");
        }
        assert!(Exponential::try_from(flat(Vec::new())).is_ok());
    }
}
