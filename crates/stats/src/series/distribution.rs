//! The values of a trend: exactly while they are few, in buckets when they are many.
//!
//! Values are any numbers: milliseconds, but also prices, negative differences, zero. Buckets are
//! cut from the bits of the number itself: sign and exponent choose a page, the highest bits of the
//! fraction a counter in it.
//!
//! ```text
//! f64:  s eeeeeeeeeee ffffffffffffffff…        page (octave)  = e, made when first touched
//!       │      │       └── 9 highest bits      counter        = f >> 43
//!       └ which table
//! ```
//!
//! A bucket is 1/512 of a power of two wide and stands for its middle, so a percentile is wrong by
//! 0.1 % at most. Count, sum, minimum and maximum are exact. Zeros are counted apart, because most
//! requests connect in none.

/// So many values other than zero are kept as they are.
pub const EXACT_VALUES_MAX: usize = 512;

pub(crate) const FRACTION_BITS: u32 = 9;
const COUNTERS: usize = 1 << FRACTION_BITS;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - FRACTION_BITS;

#[derive(Debug, Clone)]
pub struct Distribution {
    pub(crate) count: u64,
    pub(crate) zeros: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Values other than zero, unsorted; unused once `folded`.
    pub(crate) exact: Vec<f64>,
    pub(crate) folded: bool,
    pub(crate) positive: Buckets,
    pub(crate) negative: Buckets,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution {
            count: 0,
            zeros: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            exact: Vec::new(),
            folded: false,
            positive: Buckets::default(),
            negative: Buckets::default(),
        }
    }
}

impl Distribution {
    /// NaN is not a value: it is left out, as scripts that add it are told.
    #[inline]
    pub fn record(&mut self, value: f64) {
        if value == 0.0 {
            self.record_zeros(1);
        } else if !value.is_nan() {
            self.count += 1;
            self.sum += value;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.place(value);
        }
    }

    #[inline]
    fn record_zeros(&mut self, count: u64) {
        self.count += count;
        self.zeros += count;
        self.min = self.min.min(0.0);
        self.max = self.max.max(0.0);
    }

    #[inline]
    fn place(&mut self, value: f64) {
        if self.folded {
            self.bucket(value);
        } else if self.exact.len() < EXACT_VALUES_MAX {
            self.exact.push(value);
        } else {
            self.fold();
            self.bucket(value);
        }
    }

    #[inline]
    fn bucket(&mut self, value: f64) {
        let table = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        table.add(value.abs().to_bits() >> SHIFT, 1);
    }

    #[cold]
    fn fold(&mut self) {
        self.folded = true;
        let exact = std::mem::take(&mut self.exact);
        for value in &exact {
            self.bucket(*value);
        }
        // Keep the memory for the next window.
        self.exact = exact;
        self.exact.clear();
    }

    /// The same as recording all values of both, in any order.
    pub fn merge(&mut self, other: &Distribution) {
        if other.count == 0 {
            return;
        }
        self.count += other.count;
        self.zeros += other.zeros;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if other.folded {
            if !self.folded {
                self.fold();
            }
            self.positive.merge(&other.positive);
            self.negative.merge(&other.negative);
        } else {
            for value in &other.exact {
                self.place(*value);
            }
        }
    }

    /// Forgets the values, keeps the memory.
    pub fn clear(&mut self) {
        if self.count == 0 {
            return;
        }
        (self.count, self.zeros, self.sum) = (0, 0, 0.0);
        (self.min, self.max) = (f64::INFINITY, f64::NEG_INFINITY);
        self.exact.clear();
        if self.folded {
            self.folded = false;
            self.positive.clear();
            self.negative.clear();
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// 0 of nothing, as all of these.
    pub fn avg(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    pub fn min(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.min }
    }

    pub fn max(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.max }
    }

    pub fn med(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Interpolated between the two values whose ranks are nearest. Out of 0..=100: the extreme.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count <= 1 || percent.is_nan() {
            return self.min();
        }
        let rank = (percent / 100.0).clamp(0.0, 1.0) * (self.count - 1) as f64;
        let (low, share) = (rank.floor(), rank.fract());
        let [below, above] = self.at_ranks(low as u64);
        below + (above - below) * share
    }

    /// Every value with how often it occurred, in no order; of many values, middles of buckets.
    pub fn each(&self, mut take: impl FnMut(f64, u64)) {
        if self.zeros > 0 {
            take(0.0, self.zeros);
        }
        if !self.folded {
            self.exact.iter().for_each(|value| take(*value, 1));
            return;
        }
        self.negative.in_use().for_each(|(bucket, count)| take(-middle(bucket), count));
        self.positive.in_use().for_each(|(bucket, count)| take(middle(bucket), count));
    }

    /// The values with this rank, counted from 0, and the next.
    fn at_ranks(&self, rank: u64) -> [f64; 2] {
        let last = self.count - 1;
        let next = (rank + 1).min(last);
        let mut found = if self.folded {
            self.in_buckets([rank, next])
        } else {
            let mut sorted: Vec<f64> = self.exact.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let below = sorted.partition_point(|value| *value < 0.0) as u64;
            let at = |rank: u64| {
                if rank < below {
                    sorted[rank as usize]
                } else if rank < below + self.zeros {
                    0.0
                } else {
                    sorted[(rank - self.zeros) as usize]
                }
            };
            [at(rank), at(next)]
        };
        for (value, rank) in found.iter_mut().zip([rank, next]) {
            // The ends are known exactly.
            *value = match rank {
                0 => self.min,
                rank if rank == last => self.max,
                _ => value.clamp(self.min, self.max),
            };
        }
        found
    }

    fn in_buckets(&self, ranks: [u64; 2]) -> [f64; 2] {
        let negative = self.negative.in_use().rev().map(|(bucket, count)| (-middle(bucket), count));
        let zeros = std::iter::once((0.0, self.zeros));
        let positive = self.positive.in_use().map(|(bucket, count)| (middle(bucket), count));
        let mut found = [self.max; 2];
        let (mut seen, mut next) = (0, 0);
        for (value, count) in negative.chain(zeros).chain(positive) {
            seen += count;
            while next < ranks.len() && ranks[next] < seen {
                found[next] = value;
                next += 1;
            }
            if next == ranks.len() {
                break;
            }
        }
        found
    }
}

/// The value that a bucket stands for.
fn middle(bucket: u64) -> f64 {
    let low = f64::from_bits(bucket << SHIFT);
    let high = f64::from_bits((bucket + 1) << SHIFT);
    // The last bucket below infinity ends at it, and infinity's own is all infinity.
    if high.is_finite() { low + (high - low) / 2.0 } else { low }
}

/// Counters for the values of one sign, in pages of one power of two each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buckets {
    /// Exponent of the first page.
    first: u32,
    pages: Vec<Option<Box<[u32; COUNTERS]>>>,
    /// How often a counter went over its top.
    carried: Vec<(u64, u32)>,
}

impl Buckets {
    #[inline]
    pub(crate) fn add(&mut self, bucket: u64, count: u32) {
        let exponent = (bucket >> FRACTION_BITS) as u32;
        let index = exponent.wrapping_sub(self.first) as usize;
        let counter = bucket as usize % COUNTERS;
        let page = match self.pages.get_mut(index) {
            Some(Some(page)) => page,
            _ => self.make_page(exponent),
        };
        let (sum, over) = page[counter].overflowing_add(count);
        page[counter] = sum;
        if over {
            self.carry(bucket, 1);
        }
    }

    #[cold]
    fn make_page(&mut self, exponent: u32) -> &mut [u32; COUNTERS] {
        if self.pages.is_empty() {
            self.first = exponent;
        }
        if exponent < self.first {
            let missing = (self.first - exponent) as usize;
            self.pages.splice(0..0, (0..missing).map(|_| None));
            self.first = exponent;
        }
        let index = (exponent - self.first) as usize;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, || None);
        }
        self.pages[index].get_or_insert_with(|| Box::new([0; COUNTERS]))
    }

    #[cold]
    pub(crate) fn carry(&mut self, bucket: u64, times: u32) {
        match self.carried.iter_mut().find(|(known, _)| *known == bucket) {
            Some((_, carried)) => *carried += times,
            None => self.carried.push((bucket, times)),
        }
    }

    fn merge(&mut self, other: &Buckets) {
        for (page, exponent) in other.pages.iter().zip(other.first..) {
            let Some(page) = page else { continue };
            for (counter, count) in page.iter().enumerate() {
                if *count > 0 {
                    self.add((u64::from(exponent) << FRACTION_BITS) + counter as u64, *count);
                }
            }
        }
        for (bucket, times) in &other.carried {
            self.carry(*bucket, *times);
        }
    }

    fn clear(&mut self) {
        self.pages.iter_mut().flatten().for_each(|page| page.fill(0));
        self.carried.clear();
    }

    /// Buckets that have counted something, from the smallest.
    pub(crate) fn in_use(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let pages = self.pages.iter().enumerate();
        let pages = pages.filter_map(|(index, page)| Some((index, page.as_ref()?)));
        let counted = pages.flat_map(move |(index, page)| {
            let start = (u64::from(self.first) + index as u64) << FRACTION_BITS;
            page.iter().enumerate().map(move |(counter, count)| (start + counter as u64, *count))
        });
        let carried = |bucket: u64| {
            let known = self.carried.iter().find(|(known, _)| *known == bucket);
            known.map_or(0, |(_, times)| u64::from(*times) << 32)
        };
        counted
            .map(move |(bucket, count)| {
                let more = if self.carried.is_empty() { 0 } else { carried(bucket) };
                (bucket, u64::from(count) + more)
            })
            .filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Distribution {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.record(*value));
        distribution
    }

    #[test]
    fn percentiles_of_few_values_are_interpolated_between_ranks() {
        // The same values, and results, as the reference.
        let values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, -128.0, 0.5];
        let trend = of(&values);
        assert_eq!(trend.count(), 9);
        let expected = [(0.0, -128.0), (50.0, 4.0), (100.0, 64.0)];
        for (percent, value) in expected {
            assert_eq!(trend.percentile(percent), value, "p({percent})");
        }
        assert!((trend.percentile(90.0) - 38.4).abs() < 1e-9);
        assert!((trend.percentile(99.99) - 63.9744).abs() < 1e-9);
        assert!((of(&[1.0, 3.0, 10.0]).percentile(95.0) - 9.3).abs() < 1e-9);
        assert_eq!(trend.percentile(101.0), 64.0);
        assert_eq!(trend.percentile(-1.0), -128.0);
    }

    #[test]
    fn nothing_is_zero_and_nan_is_nothing() {
        let trend = of(&[f64::NAN]);
        assert_eq!((trend.count(), trend.avg(), trend.min(), trend.max()), (0, 0.0, 0.0, 0.0));
        assert_eq!(trend.percentile(95.0), 0.0);
    }

    #[test]
    fn infinities_and_the_ends_of_the_range_have_buckets() {
        let mut values = vec![f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN];
        values.extend([f64::MIN_POSITIVE, -f64::MIN_POSITIVE, 5e-324, -5e-324, -0.0]);
        values.extend((0..600).map(f64::from));
        let trend = of(&values);
        assert_eq!(trend.count(), values.len() as u64);
        assert_eq!((trend.min(), trend.max()), (f64::NEG_INFINITY, f64::INFINITY));
        assert!((trend.med() - 297.0).abs() < 0.6, "{}", trend.med());
    }

    #[test]
    fn a_counter_that_overflows_is_carried() {
        let mut buckets = Buckets::default();
        buckets.add(7, u32::MAX);
        buckets.add(7, 2);
        let mut sum = Buckets::default();
        sum.merge(&buckets);
        sum.merge(&buckets);
        let two = 2 * (u64::from(u32::MAX) + 2);
        assert_eq!(sum.in_use().collect::<Vec<_>>(), [(7, two)]);
    }

    #[test]
    fn a_latency_trend_takes_a_few_tens_of_kilobytes() {
        let trend = of(&(1..200_000).map(|us| f64::from(us) / 20.0).collect::<Vec<_>>());
        let pages = trend.positive.pages.iter().flatten().count();
        let bytes = pages * size_of::<[u32; COUNTERS]>() + EXACT_VALUES_MAX * 8;
        assert!(bytes < 50_000, "{bytes}");
    }

    #[test]
    fn clearing_keeps_the_memory_and_forgets_the_values() {
        let mut trend = of(&(0..2000).map(f64::from).collect::<Vec<_>>());
        trend.clear();
        assert_eq!((trend.count(), trend.sum(), trend.percentile(99.0)), (0, 0.0, 0.0));
        trend.record(3.0);
        assert_eq!(trend.percentile(50.0), 3.0);
    }
}
