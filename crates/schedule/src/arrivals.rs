//! When each iteration of an open model starts, whoever runs it.
//!
//! The planned rate, integrated from the start, is the number of iterations that are due: `due(t)`.
//! Arrival `i` starts at the moment from which on more than `i` are due, so the first one starts at
//! once, and a pause (rate zero) delays what falls into it to the pause's end:
//!
//! ```text
//! rate    2/s      0          4/s
//! t    0────────1s────────3s────────4s
//! due  0   1    2         2  3 4 5  6
//! i    0   1              2  3 4 5          arrival 2 waits for the end of the pause
//! ```
//!
//! The number of arrivals is that of all `i` with a start before the end: `i < due(end)`. For a
//! constant rate this is `duration * events / per`, rounded up; 200/s for 10s are 2,000, the last
//! at 9.995s.
//!
//! Amounts due are kept as integers in units of `1 / (2 * scale)`, `scale` being a common multiple
//! of the rates' `per` in nanoseconds. So stage borders are exact, steady rates never drift however
//! long they run, and only the place within a ramp is found in floating point, by IEEE operations
//! that give the same bits on every machine. A ramp downwards is solved backwards from its end,
//! where nothing cancels out.

use std::time::Duration;

use plan::{Executor, Rate};

/// Beyond this a common multiple of the rates' times is not sought and rates are rounded to the
/// finest scale there is: amounts must fit 128 bits for any length of run.
const SCALE_MAX: u128 = 10_000_000_000_000_000_000;

/// The schedule of one workflow's iterations, for all shards together.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// Units per half iteration: one iteration is `2 * scale`.
    scale: u128,
    segments: Vec<Segment>,
}

/// One stage of the rate, or the part of it that a changed rate has left.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    begin_ns: u128,
    /// Of the whole stage; the rate's slope depends on it.
    length_ns: u128,
    /// Where the segment ends, at most `length_ns` later than it began.
    end_ns: u128,
    /// Rates in units per half nanosecond, at the begin and at the end of the whole stage.
    from: u128,
    to: u128,
    /// Units due at the begin, at the segment's end, and at the whole stage's end.
    due_begin: u128,
    due_end: u128,
    due_full: u128,
}

impl Arrivals {
    /// `None` for executors whose iterations start when the one before has ended.
    pub fn new(executor: &Executor) -> Option<Arrivals> {
        match executor {
            Executor::ConstantArrivalRate { rate, duration, .. } => {
                Some(Arrivals::from_stages(*rate, &[(*rate, *duration)]))
            }
            Executor::RampingArrivalRate { start, stages, .. } => {
                let stages: Vec<_> = stages.iter().map(|stage| (stage.to, stage.over)).collect();
                Some(Arrivals::from_stages(*start, &stages))
            }
            _ => None,
        }
    }

    pub(super) fn from_stages(start: Rate, stages: &[(Rate, Duration)]) -> Arrivals {
        let rates = stages.iter().map(|(rate, _)| *rate);
        let scale = rates.chain([start]).fold(1, common_scale);
        let mut arrivals = Arrivals { scale, segments: Vec::with_capacity(stages.len()) };
        let mut from = start;
        for &(to, over) in stages {
            arrivals.append(arrivals.units(from), arrivals.units(to), over.as_nanos());
            from = to;
        }
        arrivals
    }

    /// The same schedule up to `at`, and from there a constant `rate` until the planned end.
    ///
    /// Arrivals keep their numbers, and what was already partly due stays due: with the old rate
    /// every 10 ms and the change 5 ms after an arrival, half of the next one's wait is over. It is
    /// a function of the schedule, the rate and the time only, so shards that are told the same
    /// agree, whenever they hear of it and however far each has come.
    #[must_use]
    pub fn with_rate(&self, rate: Rate, at: Duration) -> Arrivals {
        let end_ns = self.end_ns();
        let at_ns = at.as_nanos().min(end_ns);
        let mut changed = self.clone();
        changed.rescale(common_scale(self.scale, rate));
        changed.segments.retain(|segment| segment.begin_ns < at_ns);
        if let Some(last) = changed.segments.last_mut() {
            last.cut(at_ns);
        }
        let units = changed.units(rate);
        changed.append(units, units, end_ns - at_ns);
        changed
    }

    /// How many arrivals there are; they are numbered `0..total()`.
    pub fn total(&self) -> u64 {
        let due = self.segments.last().map_or(0, |segment| segment.due_end);
        u64::try_from(due.div_ceil(2 * self.scale)).unwrap_or(u64::MAX)
    }

    /// The start of arrival `i` since the load began; `None` beyond the end. Never decreases with
    /// `i`.
    pub fn time_of(&self, i: u64) -> Option<Duration> {
        let due = self.due(i);
        let index = self.segments.partition_point(|segment| segment.due_end <= due);
        self.segments.get(index).map(|segment| segment.time_of(due))
    }

    /// How many arrivals start before `t`; arrival number `count_before(t)` is the first at `t` or
    /// later.
    pub fn count_before(&self, t: Duration) -> u64 {
        let (mut low, mut high) = (0, self.total());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.time_of(middle) {
                Some(time) if time < t => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Planned arrivals per second at `t`; zero from the end on.
    pub fn rate_at(&self, t: Duration) -> f64 {
        let t_ns = t.as_nanos();
        let segment = self.segments.iter().find(|segment| t_ns < segment.end_ns);
        segment.map_or(0.0, |segment| segment.rate_at(t_ns) / self.scale as f64 * 1e9)
    }

    /// The highest planned rate per second: what virtual users are sized for.
    pub fn rate_max(&self) -> f64 {
        let ends = |segment: &Segment| segment.from.max(segment.to);
        let units = self.segments.iter().map(ends).max().unwrap_or(0);
        units as f64 / self.scale as f64 * 1e9
    }

    /// The arrivals of shard `shard` of `shards`, in order.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard(&self, shard: usize, shards: usize) -> Shard {
        assert!(shard < shards, "shard {shard} of {shards} does not exist");
        Shard {
            arrivals: self.clone(),
            next: shard as u64,
            step: shards as u64,
            segment: 0,
            changes: 0,
            joined: Duration::ZERO,
        }
    }

    fn due(&self, i: u64) -> u128 {
        (u128::from(i) * 2).saturating_mul(self.scale)
    }

    fn units(&self, rate: Rate) -> u128 {
        // Both factors are below 2^64, so the product fits.
        u128::from(rate.events).saturating_mul(self.scale) / rate.per.as_nanos().max(1)
    }

    fn end_ns(&self) -> u128 {
        self.segments.last().map_or(0, |segment| segment.end_ns)
    }

    #[cfg(test)]
    pub(super) fn segments_end(&self) -> u64 {
        self.end_ns() as u64
    }

    fn append(&mut self, from: u128, to: u128, length_ns: u128) {
        // A stage of no length is a jump: it only sets where the next one begins.
        if length_ns == 0 {
            return;
        }
        let begin_ns = self.end_ns();
        let due_begin = self.segments.last().map_or(0, |segment| segment.due_end);
        let due_end = due_begin.saturating_add(from.saturating_add(to).saturating_mul(length_ns));
        let end_ns = begin_ns + length_ns;
        let due_full = due_end;
        let segment =
            Segment { begin_ns, length_ns, end_ns, from, to, due_begin, due_end, due_full };
        self.segments.push(segment);
    }

    fn rescale(&mut self, scale: u128) {
        let factor = scale / self.scale;
        self.scale = scale;
        for segment in &mut self.segments {
            segment.from = segment.from.saturating_mul(factor);
            segment.to = segment.to.saturating_mul(factor);
            segment.due_begin = segment.due_begin.saturating_mul(factor);
            segment.due_end = segment.due_end.saturating_mul(factor);
            segment.due_full = segment.due_full.saturating_mul(factor);
        }
    }
}

impl Segment {
    /// When this many units are due; the amount lies within the segment, so the rate is not zero
    /// throughout.
    fn time_of(&self, due: u128) -> Duration {
        let within = if self.from == self.to {
            (due - self.due_begin) / self.from.saturating_mul(2)
        } else if self.from < self.to {
            self.climb(self.from, due - self.due_begin) as u128
        } else {
            let back = self.climb(self.to, self.due_full - due);
            (self.length_ns as f64 - back).max(0.0) as u128
        };
        // Rounding must not carry an arrival over the end that it lies before.
        let ns = (self.begin_ns + within).min(self.end_ns - 1);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The time in which a rate that grows from `low` by the stage's slope makes this many units
    /// due: the positive root of `2 * low * t + slope * t^2 = units`, in the form that subtracts
    /// nothing.
    fn climb(&self, low: u128, units: u128) -> f64 {
        let (low, units) = (low as f64, units as f64);
        let slope = self.from.abs_diff(self.to) as f64 / self.length_ns as f64;
        let root = (low * low + slope * units).sqrt();
        if root > 0.0 { units / (low + root) } else { 0.0 }
    }

    fn rate_at(&self, t_ns: u128) -> f64 {
        let along = (t_ns - self.begin_ns) as f64 / self.length_ns as f64;
        self.from as f64 + (self.to as f64 - self.from as f64) * along
    }

    /// Ends the segment at `at_ns`, which lies within it.
    fn cut(&mut self, at_ns: u128) {
        if at_ns >= self.end_ns {
            return;
        }
        let along = at_ns - self.begin_ns;
        let due = if self.from == self.to {
            self.from.saturating_mul(2).saturating_mul(along)
        } else {
            ((self.from as f64 + self.rate_at(at_ns)) * along as f64) as u128
        };
        self.end_ns = at_ns;
        self.due_end = self.due_begin.saturating_add(due).min(self.due_full);
    }
}

/// The arrivals of one shard, in order: the same times as [`Arrivals::time_of`], found without
/// searching.
#[derive(Debug, Clone)]
pub struct Shard {
    arrivals: Arrivals,
    next: u64,
    step: u64,
    segment: usize,
    /// How many changes of the rate it follows.
    changes: usize,
    /// Where the schedule stood when it began.
    joined: Duration,
}

impl Shard {
    /// Goes on with another schedule (see [`Arrivals::with_rate`]) from the next arrival on.
    pub(super) fn change(&mut self, arrivals: Arrivals) {
        self.arrivals = arrivals;
        self.segment = 0;
    }

    /// Follows all changes of the rate that there are, oldest first; it knows the first of them
    /// already. What it has given stays given. The number of arrivals that are spent by it: of
    /// those that the new schedule has before the moment of joining, somebody else has taken care.
    pub fn follow(&mut self, changes: &[(Rate, Duration)]) -> u64 {
        let Some(news) = changes.get(self.changes..).filter(|news| !news.is_empty()) else {
            return 0;
        };
        self.change(self.arrivals.with_rates(news.iter().copied()));
        self.changes = changes.len();
        self.skip_before(self.joined)
    }

    /// Begins at `elapsed` instead of at the beginning, and not before the first `spent` of its
    /// arrivals. What was missed is not made up for (R5a). The number of arrivals that are spent by
    /// it.
    pub fn join(&mut self, elapsed: Duration, spent: u64) -> u64 {
        self.joined = elapsed;
        let skipped = self.skip_before(elapsed);
        // Also those that this schedule does not have; a later rate may bring them back.
        let more = spent.saturating_sub(skipped);
        self.next = self.next.saturating_add(more.saturating_mul(self.step));
        skipped + more
    }

    /// The arrival that `next` would give, without taking it.
    pub fn peek(&mut self) -> Option<(u64, Duration)> {
        let due = self.arrivals.due(self.next);
        loop {
            let segment = self.arrivals.segments.get(self.segment)?;
            if due < segment.due_end {
                return Some((self.next, segment.time_of(due)));
            }
            self.segment += 1;
        }
    }

    /// How many arrivals of this shard are left.
    pub fn left(&self) -> u64 {
        let total = self.arrivals.total();
        if self.next >= total { 0 } else { (total - self.next).div_ceil(self.step) }
    }

    /// Skips all arrivals before `t`; the number skipped (R5a: a shard that joins late does not
    /// catch up).
    pub fn skip_before(&mut self, t: Duration) -> u64 {
        let first = self.arrivals.count_before(t);
        if first <= self.next {
            return 0;
        }
        let skipped = (first - self.next).div_ceil(self.step);
        self.next += skipped * self.step;
        skipped
    }
}

impl Iterator for Shard {
    /// The arrival's number among those of all shards, and its start.
    type Item = (u64, Duration);

    fn next(&mut self) -> Option<(u64, Duration)> {
        let arrival = self.peek()?;
        self.next = self.next.saturating_add(self.step);
        Some(arrival)
    }
}

/// A multiple of `scale` in which the rate is a whole number of units, or as fine a one as fits.
fn common_scale(scale: u128, rate: Rate) -> u128 {
    let per = rate.per.as_nanos().max(1);
    let multiple = scale / greatest_common_divisor(scale, per) * per;
    if multiple <= SCALE_MAX { multiple } else { SCALE_MAX / scale * scale }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
