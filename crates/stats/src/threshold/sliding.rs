//! The last so many seconds of a selection, and the worst stretch of that length.

use std::collections::VecDeque;
use std::time::Duration;

use plan::Hold;

use super::is_worse;
use super::sample::Sample;
use crate::trend::SparseTrend;

/// Slots of a ring; beyond this many ticks, neighbours share a slot.
pub const SLOTS_MAX: usize = 600;

/// Each step over idle time sums the ring once.
const IDLE_STEPS_MAX: u32 = 120;

#[derive(Debug)]
pub(super) struct Sliding {
    over: Duration,
    hold: Hold,
    /// Oldest first; each at least `over / SLOTS_MAX` long, except the newest.
    slots: VecDeque<Slot>,
    covered: Duration,
    /// The window's sum, made anew at each tick: extremes cannot be subtracted.
    sum: Sample,
    latest: Option<f64>,
    full: bool,
    has_been_full: bool,
    worst: Option<f64>,
    broken: bool,
}

#[derive(Debug)]
struct Slot {
    length: Duration,
    content: Content,
}

/// A tick as it is kept: of a histogram only the buckets in use.
#[derive(Debug)]
enum Content {
    Idle,
    Plain(Sample),
    Sparse(SparseTrend),
}

impl Content {
    fn of(sample: &Sample) -> Content {
        match sample {
            Sample::Trend(trend) => Content::Sparse(trend.to_sparse()),
            other => Content::Plain(other.clone()),
        }
    }

    fn add_to(&self, sum: &mut Sample) {
        match (self, sum) {
            (Content::Idle, _) => {}
            (Content::Plain(sample), sum) => sum.merge(sample),
            (Content::Sparse(sparse), Sample::Trend(trend)) => trend.merge_sparse(sparse),
            (Content::Sparse(_), _) => unreachable!("only trends are kept as buckets"),
        }
    }
}

impl Sliding {
    pub fn new(over: Duration, hold: Hold, empty: Sample) -> Sliding {
        Sliding {
            over,
            hold,
            slots: VecDeque::new(),
            covered: Duration::ZERO,
            sum: empty,
            latest: None,
            full: false,
            has_been_full: false,
            worst: None,
            broken: false,
        }
    }

    /// Moves the window over one tick.
    pub fn push(&mut self, tick: &Sample, length: Duration) {
        let grain = self.over / SLOTS_MAX as u32;
        match self.slots.back_mut() {
            Some(last) if last.length < grain => {
                self.sum.clear();
                last.content.add_to(&mut self.sum);
                self.sum.merge(tick);
                *last = Slot { length: last.length + length, content: Content::of(&self.sum) };
            }
            _ => self.slots.push_back(Slot { length, content: Content::of(tick) }),
        }
        self.advance(length, length);
    }

    /// Moves the window over time in which nothing happened, tick by tick, or in larger steps where
    /// that would take too many. What is longer than the window shows nothing that the window's
    /// length does not.
    pub fn idle(&mut self, time: Duration, tick: Duration) {
        let mut left = time.min(self.over + tick);
        let step = tick.max(self.over / SLOTS_MAX as u32).max(left / IDLE_STEPS_MAX);
        while !left.is_zero() {
            let length = left.min(step);
            self.slots.push_back(Slot { length, content: Content::Idle });
            self.advance(length, tick);
            left -= length;
        }
    }

    /// The value of the window that ends now, full or not.
    pub fn latest(&self) -> Option<f64> {
        self.latest
    }

    pub fn is_broken_now(&self) -> bool {
        self.full && self.latest.is_some_and(|value| !self.holds(value))
    }

    /// Whether any full window broke the threshold.
    pub fn has_broken(&self) -> bool {
        self.broken
    }

    pub fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    pub fn worst(&self) -> Option<f64> {
        self.worst
    }

    /// What must not be forgotten: whether a full window was seen, the worst, and whether one
    /// broke.
    pub fn so_far(&self) -> (bool, Option<f64>, bool) {
        (self.has_been_full, self.worst, self.broken)
    }

    /// Begins anew with an empty window, and with what was seen before.
    pub fn take_up(&mut self, has_been_full: bool, worst: Option<f64>, broken: bool) {
        (self.has_been_full, self.worst, self.broken) = (has_been_full, worst, broken);
    }

    fn holds(&self, value: f64) -> bool {
        self.hold.op.holds(value, self.hold.value)
    }

    fn advance(&mut self, added: Duration, tick: Duration) {
        self.covered += added;
        // Ticks are never exactly as long as planned: half of one decides.
        let slack = tick.min(self.over) / 2;
        while let Some(oldest) = self.slots.front() {
            let without = self.covered - oldest.length;
            if without + slack < self.over {
                break;
            }
            self.covered = without;
            self.slots.pop_front();
        }
        self.full = self.covered + slack >= self.over;
        self.sum.clear();
        self.slots.iter().for_each(|slot| slot.content.add_to(&mut self.sum));
        self.latest = self.sum.value(self.hold.aggregation, self.covered);
        self.judge();
    }

    fn judge(&mut self) {
        if !self.full {
            return;
        }
        self.has_been_full = true;
        let Some(value) = self.latest else { return };
        self.broken |= !self.holds(value);
        let (op, limit) = (self.hold.op, self.hold.value);
        if self.worst.is_none_or(|worst| is_worse(op, limit, value, worst)) {
            self.worst = Some(value);
        }
    }

    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    #[cfg(test)]
    pub fn sum(&self) -> &Sample {
        &self.sum
    }
}
