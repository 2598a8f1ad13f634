//! Rows of data sets that must not repeat, handed out in blocks by whoever leads the job.
//!
//! On one machine row `i` belongs to iteration `i`, and shards need not talk. On a fleet an attempt
//! that is lost leaves a hole: which of its rows were used nobody knows. So rows are leased in
//! blocks, each to one attempt, and what is left of a lost attempt's blocks is never used (R5a).
//! More is asked for while there is still enough for some seconds, so that nobody waits in the
//! usual case.

use base::clock;
use fence::Moment;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use plan::{DataOrder, WhenExhausted};

use super::ShardContext;
use crate::vars::Vars;

/// Ask for more when the rest lasts for less than this: about three quarters of a lease, as with
/// iterations, so that load goes on while its job changes hands (R28).
const AHEAD_NS: u64 = 4_500_000_000;
/// A block should last for this long.
const BLOCK_NS: u64 = 6_000_000_000;
const BLOCK_MIN: u64 = 64;
const BLOCK_MAX: u64 = 1 << 20;

/// What came of asking for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Row(u64),
    /// More were asked for, and are not there yet.
    NotYet,
    /// There are no more.
    Exhausted,
}

/// The blocks of one set.
#[derive(Debug)]
pub struct Supply {
    blocks: VecDeque<Range<u64>>,
    left: u64,
    /// No further block will come.
    over: bool,
    asked: bool,
    /// Rows of the last block, for when nothing is known of how fast they go.
    last_block: u64,
    /// Rows taken since then.
    taken: u64,
    since: Moment,
}

impl Supply {
    pub fn new(blocks: impl IntoIterator<Item = Range<u64>>, now: Moment) -> Supply {
        let mut supply = Supply {
            blocks: VecDeque::new(),
            left: 0,
            over: false,
            asked: false,
            last_block: 0,
            taken: 0,
            since: now,
        };
        blocks.into_iter().for_each(|block| supply.grant(block));
        supply
    }

    pub fn grant(&mut self, block: Range<u64>) {
        if block.is_empty() {
            return;
        }
        self.last_block = block.end - block.start;
        self.left += self.last_block;
        self.blocks.push_back(block);
        self.asked = false;
    }

    pub fn end(&mut self) {
        self.over = true;
    }

    pub fn take(&mut self) -> Taken {
        let Some(block) = self.blocks.front_mut() else {
            return if self.over { Taken::Exhausted } else { Taken::NotYet };
        };
        let row = block.start;
        block.start += 1;
        if block.is_empty() {
            self.blocks.pop_front();
        }
        self.left -= 1;
        self.taken += 1;
        Taken::Row(row)
    }

    /// How many rows to ask for, if it is time to. Said once until a block comes.
    pub fn wanted(&mut self, now: Moment) -> Option<u64> {
        if self.asked || self.over {
            return None;
        }
        let known_ns = now.nanos_since(self.since).max(1_000_000);
        let lasting =
            |ns: u64| (u128::from(self.taken) * u128::from(ns) / u128::from(known_ns)) as u64;
        let low = lasting(AHEAD_NS).max(self.last_block / 2);
        if self.left > low {
            return None;
        }
        let wanted = lasting(BLOCK_NS).clamp(BLOCK_MIN, BLOCK_MAX);
        self.asked = true;
        (self.taken, self.since) = (0, now);
        Some(wanted)
    }
}

/// What an iteration has come to as to its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Chosen,
    /// A set that must not repeat has no row left.
    Exhausted,
    /// No row was handed out in time.
    Late,
}

impl ShardContext {
    /// Chooses the data rows of an iteration.
    pub async fn choose_rows(&self, vars: &Vars, vu: u64, iteration: u64) -> Rows {
        let workflow = self.workflow();
        let leases = !self.supplies.borrow().is_empty();
        for &set in &workflow.data_sets {
            if leases && self.supplies.borrow().contains_key(&set) {
                // Boxed, like all that is rare.
                match Box::pin(self.leased_row(set)).await {
                    Ok(row) => vars.rows.borrow_mut()[set] = row as usize,
                    Err(why) => return why,
                }
                continue;
            }
            let definition = &self.program.data_sets[set];
            let rows = definition.rows.max(1);
            let number = match definition.order {
                DataOrder::Sequential | DataOrder::UniquePerIteration => iteration,
                DataOrder::UniquePerVu => vu,
                DataOrder::Random => vars.rng.borrow_mut().u64(..rows),
            };
            let unique = definition.order == DataOrder::UniquePerIteration;
            if number >= rows && (unique || definition.when_exhausted == WhenExhausted::Stop) {
                return Rows::Exhausted;
            }
            vars.rows.borrow_mut()[set] = (number % rows) as usize;
        }
        Rows::Chosen
    }

    async fn leased_row(&self, set: usize) -> Result<u64, Rows> {
        let mut until = None;
        loop {
            let came = self.rows_came.notified();
            let now = clock::now();
            let (taken, wanted) = {
                let mut supplies = self.supplies.borrow_mut();
                let Some(supply) = supplies.get_mut(&set) else { return Err(Rows::Exhausted) };
                (supply.take(), supply.wanted(now))
            };
            if let Some(at_least) = wanted {
                (self.want_rows)(set, at_least);
            }
            match taken {
                Taken::Row(row) if row < self.program.data_sets[set].rows => return Ok(row),
                Taken::Row(_) | Taken::Exhausted => return Err(Rows::Exhausted),
                Taken::NotYet => {
                    self.note_held();
                }
            }
            let until = *until.get_or_insert_with(|| now.after(self.row_wait.get()));
            if now >= until {
                return Err(Rows::Late);
            }
            let until = tokio::time::Instant::from_std(clock::instant(until));
            tokio::select! {
                biased;
                () = came => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Rows that nobody else gets.
    pub fn lease_rows(&self, rows: &BTreeMap<usize, Vec<Range<u64>>>, patience: Duration) {
        let now = clock::now();
        self.row_wait.set(patience);
        *self.supplies.borrow_mut() = rows
            .iter()
            .map(|(&set, blocks)| (set, Supply::new(blocks.iter().cloned(), now)))
            .collect();
    }

    /// Further rows of a set; `None`: there are no more.
    pub fn grant_rows(&self, set: usize, rows: Option<Range<u64>>) {
        if let Some(supply) = self.supplies.borrow_mut().get_mut(&set) {
            match rows {
                Some(rows) => supply.grant(rows),
                None => supply.end(),
            }
        }
        self.held_no_more();
        self.rows_came.notify_waiters();
    }

    pub fn leases_rows(&self) -> bool {
        !self.supplies.borrow().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn blocks_are_used_up_in_order_and_once() {
        let mut supply = Supply::new([3..5, 10..11], Moment::from_nanos(0));
        let rows: Vec<_> = (0..4).map(|_| supply.take()).collect();
        assert_eq!(rows, [Taken::Row(3), Taken::Row(4), Taken::Row(10), Taken::NotYet]);
        supply.grant(20..21);
        supply.end();
        assert_eq!([supply.take(), supply.take()], [Taken::Row(20), Taken::Exhausted]);
    }

    #[test]
    fn more_are_asked_for_once_and_before_they_are_needed() {
        let mut supply = Supply::new(std::iter::once(0..100), Moment::from_nanos(0));
        assert_eq!(supply.wanted(Moment::from_nanos(0)), None);
        let mut asked_at = None;
        for row in 0..100 {
            supply.take();
            // A hundred rows a second.
            if let Some(wanted) = supply.wanted(Moment::from_nanos((row + 1) * SECOND / 100)) {
                assert_eq!(asked_at.replace((row, wanted)), None, "asked twice");
            }
        }
        let (row, wanted) = asked_at.expect("it asks");
        assert!(row < 60, "half of the block is left: {row}");
        assert!((500..=700).contains(&wanted), "six seconds' worth: {wanted}");
        supply.grant(100..700);
        assert_eq!(supply.wanted(Moment::from_nanos(SECOND)), None, "there is enough again");
    }

    #[test]
    fn nothing_is_asked_for_when_there_is_no_more() {
        let mut supply = Supply::new([], Moment::from_nanos(0));
        assert_eq!(supply.wanted(Moment::from_nanos(1)), Some(BLOCK_MIN));
        assert_eq!(supply.wanted(Moment::from_nanos(2)), None);
        supply.end();
        assert_eq!((supply.wanted(Moment::from_nanos(3)), supply.take()), (None, Taken::Exhausted));
    }
}
