//! Who has fallen silent, of those that one node hears all the time: a failure detector that learns
//! which silences mean nothing.
//!
//! ```text
//! heard ──── gap ──── heard          the gap was noise: the next silence is given three times as much
//! heard ─────── patience ──────▶ silent
//! heard ── refused ── 100 ms ── refused ──▶ silent at once: its machine says that nobody listens there
//! ```
//!
//! A fixed time-out is wrong twice. On a good network it is too long; on a bad one, where a lost
//! packet delays a stream by 0.2, 0.6, 1.4, 3 s, any short one is too short every few minutes. So
//! the patience begins short and is three times the longest gap that was followed by a sign of life
//! lately. What lasted longer than the most that is ever waited was an outage, and one in which
//! connections were refused was a restart: neither is noise.
//!
//! Being silent proves nothing (R26). It may cause a proposal, or a revoke, and never replaces the
//! wait after it.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::Moment;

/// A silence is given so many times the longest gap that meant nothing.
const FACTOR: u32 = 3;
/// How long a gap is remembered, at least; twice as long at most.
const REMEMBER: Duration = Duration::from_secs(300);
/// Two refusals so far apart are no accident of a restart.
pub const REFUSALS_APART: Duration = Duration::from_millis(100);

/// The longest gaps of late that were followed by a sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    since: Moment,
    worst: Duration,
    /// Of the time before `since`.
    before: Duration,
}

impl Noise {
    fn turn(&mut self, now: Moment) {
        let age = now.since(self.since);
        if age >= REMEMBER {
            self.before = if age < 2 * REMEMBER { self.worst } else { Duration::ZERO };
            (self.since, self.worst) = (now, Duration::ZERO);
        }
    }

    pub fn note(&mut self, gap: Duration, now: Moment) {
        self.turn(now);
        self.worst = self.worst.max(gap);
    }

    /// How long a silence has to last: at least `first`, at most `most`.
    #[must_use]
    pub fn patience(&self, first: Duration, most: Duration, now: Moment) -> Duration {
        let mut noise = *self;
        noise.turn(now);
        let worst = noise.worst.max(noise.before);
        worst.saturating_mul(FACTOR).clamp(first, most.max(first))
    }
}

/// Refusals since the last sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    first: Moment,
    last: Moment,
}

impl Refusals {
    pub fn note(refusals: &mut Option<Self>, now: Moment) {
        let first = refusals.map_or(now, |refusals| refusals.first);
        *refusals = Some(Self { first, last: now });
    }

    /// Two of them, far enough apart.
    #[must_use]
    pub fn are_enough(&self) -> bool {
        self.last.since(self.first) >= REFUSALS_APART
    }
}

/// Times of a [`Detector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// On a network without noise.
    pub first: Duration,
    /// However noisy it is.
    pub most: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    heard: Moment,
    refused: Option<Refusals>,
}

/// Watches others by the signs of life that come from them.
#[derive(Clone, Debug)]
pub struct Detector<K> {
    patience: Patience,
    lines: BTreeMap<K, Line>,
    noise: Noise,
}

impl<K: Ord + Copy> Detector<K> {
    #[must_use]
    pub fn new(patience: Patience) -> Self {
        Self { patience, lines: BTreeMap::new(), noise: Noise::default() }
    }

    /// Watches exactly these from now on. Those that are new count as heard now; of the others it
    /// is known when they were.
    pub fn watch(&mut self, others: impl IntoIterator<Item = K>, now: Moment) {
        let new = Line { heard: now, refused: None };
        let line = |other: K| (other, self.lines.get(&other).copied().unwrap_or(new));
        self.lines = others.into_iter().map(line).collect();
    }

    pub fn heard(&mut self, other: K, now: Moment) {
        let Some(line) = self.lines.get_mut(&other) else { return };
        let gap = now.since(line.heard);
        if line.refused.is_none() && gap <= self.patience.most {
            self.noise.note(gap, now);
        }
        *line = Line { heard: line.heard.max(now), refused: None };
    }

    /// A connection to it was refused by its machine.
    pub fn refused(&mut self, other: K, now: Moment) {
        if let Some(line) = self.lines.get_mut(&other) {
            Refusals::note(&mut line.refused, now);
        }
    }

    /// The one who watches did not run for so long: what others have said meanwhile lies unread.
    pub fn stood_still(&mut self, time: Duration, now: Moment) {
        for line in self.lines.values_mut() {
            line.heard = line.heard.after(time).min(now);
            line.refused = None;
        }
    }

    /// How long nothing was heard of it.
    #[must_use]
    pub fn quiet_for(&self, other: K, now: Moment) -> Option<Duration> {
        self.lines.get(&other).map(|line| now.since(line.heard))
    }

    /// How long a silence has to last at the moment.
    #[must_use]
    pub fn patience(&self, now: Moment) -> Duration {
        self.noise.patience(self.patience.first, self.patience.most, now)
    }

    pub fn silent(&self, now: Moment) -> impl Iterator<Item = K> + '_ {
        let patience = self.patience(now);
        let silent = move |line: &Line| {
            now.since(line.heard) >= patience
                || line.refused.is_some_and(|refused| refused.are_enough())
        };
        self.lines.iter().filter(move |(_, line)| silent(line)).map(|(other, _)| *other)
    }
}

#[cfg(test)]
mod tests;
