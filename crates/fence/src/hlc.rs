//! Hybrid logical clock: stamps that agree with cause and effect and stay near the wall clock.
//!
//! Each node has one, with one owner. It never goes back: not when the wall clock is set back, not
//! when more happens in a millisecond than fits, and not over a restart. For the last it reserves
//! time ahead: no stamp reaches `reserved_until`, which the owner has made durable before, and the
//! next life starts from there. So even stamps that were only ever sent in messages are not issued
//! twice.
//!
//! ```text
//!   issued stamps     free to issue     │ not before this line was moved and written down
//! ──────────────────┼───────────────────│──────────────────────────▶ wall_ms
//!                  last           reserved_until: the next life starts here
//! ```
//!
//! A peer whose clock is far ahead would drag everybody with it, so a stamp beyond the drift bound
//! is not merged. It is counted, and the result names the sender.
//!
//! The stamps are for causality across jobs, audit and bounded staleness. They never decide between
//! two entries of a log (its order does), and no safety rests on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// A stamp. Ordered by wall time, then by count, then by node, so no two stamps of a cluster are
/// equal.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Hlc {
    pub wall_ms: u64,
    pub logical: u32,
    pub node: NodeId,
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.wall_ms, self.logical)
    }
}

/// How a clock behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSettings {
    /// A stamp that is further ahead of the own wall clock than this is not merged.
    pub max_drift_ms: u64,
    /// How far ahead time is reserved. More means fewer durable writes, and a longer lead after a
    /// quick restart.
    pub reserve_ms: u64,
}

impl Default for ClockSettings {
    fn default() -> Self {
        Self { max_drift_ms: 500, reserve_ms: 3_000 }
    }
}

/// What a tick gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Tick {
    Stamp(Hlc),
    /// Make this time durable, tell the clock by [`HybridClock::reserved`], and tick again.
    NeedsReservation(u64),
}

/// What a received stamp has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Receipt {
    /// The stamp of the receiving: above the received one and above all before it.
    Stamp(Hlc),
    /// The received stamp is taken in. Make this time durable, tell the clock, and tick for the
    /// stamp of the receiving.
    NeedsReservation(u64),
    /// Not taken in: the sender's clock is this far ahead of ours. Tick for a stamp that knows
    /// nothing of the sender's.
    TooFarAhead { sender: NodeId, ahead_ms: u64 },
}

/// The clock of one node.
#[derive(Clone, Debug)]
pub struct HybridClock {
    node: NodeId,
    settings: ClockSettings,
    wall_ms: u64,
    logical: u32,
    reserved_until: u64,
    drift_refused: u64,
}

impl HybridClock {
    /// Starts from the reservation of the former life (0 if there was none). The first tick asks
    /// for a new one.
    #[must_use]
    pub fn start(node: NodeId, reserved_until: u64, settings: ClockSettings) -> Self {
        Self {
            node,
            settings,
            wall_ms: reserved_until,
            logical: 0,
            reserved_until,
            drift_refused: 0,
        }
    }

    /// Never below this stamp, which the own log holds from a former life. What others have stamped
    /// goes through [`receive`](Self::receive), which knows the drift bound.
    pub fn never_below(&mut self, found: Hlc) {
        (self.wall_ms, self.logical) =
            (self.wall_ms, self.logical).max((found.wall_ms, found.logical));
    }

    /// The stamp of something that happens here.
    pub fn tick(&mut self, now_ms: u64) -> Tick {
        let next = if now_ms > self.wall_ms { (now_ms, 0) } else { self.after_last() };
        match self.issue(next) {
            Ok(stamp) => Tick::Stamp(stamp),
            Err(until) => Tick::NeedsReservation(until),
        }
    }

    /// The stamp of the receiving of something that was stamped elsewhere. Every control message
    /// goes through here.
    pub fn receive(&mut self, stamp: Hlc, now_ms: u64) -> Receipt {
        let ahead_ms = stamp.wall_ms.saturating_sub(now_ms);
        if ahead_ms > self.settings.max_drift_ms {
            self.drift_refused += 1;
            return Receipt::TooFarAhead { sender: stamp.node, ahead_ms };
        }
        // Taken in even if no stamp can be issued yet: the next one, whenever it comes, is above
        // it.
        self.never_below(stamp);
        match self.tick(now_ms) {
            Tick::Stamp(stamp) => Receipt::Stamp(stamp),
            Tick::NeedsReservation(until) => Receipt::NeedsReservation(until),
        }
    }

    /// The owner has made this reservation durable.
    pub fn reserved(&mut self, until: u64) {
        self.reserved_until = self.reserved_until.max(until);
    }

    /// A reservation to make in time, so that no tick has to wait for it: when half of the last one
    /// is used.
    #[must_use]
    pub fn reservation_due(&self, now_ms: u64) -> Option<u64> {
        let at = self.wall_ms.max(now_ms);
        let left = self.reserved_until.saturating_sub(at);
        (left <= self.settings.reserve_ms / 2).then(|| self.reservation_from(at))
    }

    /// How far the clock is ahead of the wall clock. After a quick restart that is up to
    /// `reserve_ms`; a node that waits this long (never more than `reserve_ms`) before it speaks is
    /// not taken for one with a bad clock.
    #[must_use]
    pub fn lead_ms(&self, now_ms: u64) -> u64 {
        self.wall_ms.saturating_sub(now_ms)
    }

    /// How many received stamps were beyond the drift bound.
    #[must_use]
    pub fn drift_refused(&self) -> u64 {
        self.drift_refused
    }

    /// The place after the last stamp. A full count carries into the wall time; only the end of
    /// time has no next.
    fn after_last(&self) -> (u64, u32) {
        match self.logical.checked_add(1) {
            Some(logical) => (self.wall_ms, logical),
            None => (self.wall_ms.saturating_add(1), 0),
        }
    }

    fn issue(&mut self, (wall_ms, logical): (u64, u32)) -> Result<Hlc, u64> {
        if wall_ms >= self.reserved_until {
            return Err(self.reservation_from(wall_ms));
        }
        debug_assert!((wall_ms, logical) > (self.wall_ms, self.logical), "HLC: stamps rise");
        (self.wall_ms, self.logical) = (wall_ms, logical);
        Ok(Hlc { wall_ms, logical, node: self.node })
    }

    /// At least one millisecond beyond, else the reservation would allow nothing.
    fn reservation_from(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_add(self.settings.reserve_ms.max(1))
    }
}
