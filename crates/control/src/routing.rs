//! Whether a worker is offered work: what membership, its heartbeats and one's own talk with it
//! say, put together.
//!
//! The matrix of the three signals is CORE-74's, read for placement (ARCH-121). A worker that is
//! full is not drained: it has no room, which is said by its free cores, and shards of a lost
//! worker may still share those it has (R14).
//!
//! **Hints only** (R6). Nothing that runs is ended or revoked by what is decided here; it decides
//! where new work goes.

use std::fmt;

use crate::breaker::{self, Tripped};

/// What may be placed on a worker. The order is that of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routing {
    /// First choice.
    #[default]
    Route,
    /// Something is odd: it gets work only where no other has room (ARCH-72).
    Investigate,
    /// Nothing new; what it has, it finishes.
    Drain,
    /// Nothing new, and it is not counted on any more.
    Evict,
}

impl Routing {
    #[must_use]
    pub fn takes_work(self) -> bool {
        self <= Self::Investigate
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Investigate => "investigate",
            Self::Drain => "drain",
            Self::Evict => "evict",
        }
    }
}

/// What membership says of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Suspect,
    /// Dead, or it has left.
    Gone,
}

/// Whether its work goes forward, by its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As usual, or there is nothing to do.
    Usual,
    Low,
    /// There is work, and nothing has moved for a long time.
    Stuck,
}

/// Everything that is known of a worker's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    pub presence: Presence,
    /// By its own word.
    pub accepting: bool,
    /// By its own word, and then it does not accept.
    pub disk_full: bool,
    pub pace: Pace,
    /// Its memory is nearly used up.
    pub short_of_memory: bool,
    /// Stuck or unreachable for its time, and not only because most of them are (CORE-79).
    pub overdue: bool,
    /// Of one's own talk with it, unless it is closed.
    pub breaker: Option<(breaker::State, Tripped)>,
}

/// Why a worker is not the first choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Gone,
    Overdue,
    Suspect,
    Draining,
    DiskFull,
    Stuck,
    Slow,
    ShortOfMemory,
    Breaker(breaker::State, Tripped),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it is gone"),
            Self::Overdue => f.write_str("stuck or unreachable for too long"),
            Self::Suspect => f.write_str("others cannot reach it"),
            Self::Draining => f.write_str("it takes no more"),
            Self::DiskFull => f.write_str("its disk is full; make room, it goes on by itself"),
            Self::Stuck => f.write_str("stuck: it has work, and nothing has moved for two minutes"),
            Self::Slow => f.write_str("slow: its threads do not answer as they used to"),
            Self::ShortOfMemory => f.write_str("its memory is nearly used up"),
            Self::Breaker(breaker::State::HalfOpen, tripped) => {
                write!(f, "breaker half open: {tripped}; it is being tried")
            }
            Self::Breaker(_, tripped) => write!(f, "breaker open: {tripped}"),
        }
    }
}

/// The first reason that applies, from the worst.
#[must_use]
pub fn route(signs: &Signals) -> (Routing, Option<Why>) {
    let because = |routing, why| (routing, Some(why));
    match *signs {
        Signals { presence: Presence::Gone, .. } => because(Routing::Evict, Why::Gone),
        Signals { overdue: true, .. } => because(Routing::Evict, Why::Overdue),
        Signals { breaker: Some((state, tripped)), .. } => {
            because(Routing::Drain, Why::Breaker(state, tripped))
        }
        Signals { presence: Presence::Suspect, .. } => because(Routing::Drain, Why::Suspect),
        Signals { disk_full: true, .. } => because(Routing::Drain, Why::DiskFull),
        Signals { accepting: false, .. } => because(Routing::Drain, Why::Draining),
        Signals { pace: Pace::Stuck, .. } => because(Routing::Drain, Why::Stuck),
        Signals { pace: Pace::Low, .. } => because(Routing::Investigate, Why::Slow),
        Signals { short_of_memory: true, .. } => because(Routing::Investigate, Why::ShortOfMemory),
        Signals { presence: Presence::There, accepting: true, pace: Pace::Usual, .. } => {
            (Routing::Route, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::breaker::{Failure, State};

    const WELL: Signals = Signals {
        presence: Presence::There,
        accepting: true,
        disk_full: false,
        pace: Pace::Usual,
        short_of_memory: false,
        overdue: false,
        breaker: None,
    };

    fn tripped() -> Tripped {
        let (failure, span) = (Failure::NoAnswer, Duration::from_secs(12));
        Tripped { failure, failures: 3, span, trials: 0 }
    }

    /// ARCH-121, CORE-74, CORE-76: each sign by itself.
    #[test]
    fn each_sign_has_its_verdict() {
        let open = Some((State::Open, tripped()));
        let tried = Some((State::HalfOpen, tripped()));
        let rows = [
            (WELL, Routing::Route, ""),
            (Signals { pace: Pace::Low, ..WELL }, Routing::Investigate, "slow"),
            (Signals { short_of_memory: true, ..WELL }, Routing::Investigate, "memory"),
            (Signals { pace: Pace::Stuck, ..WELL }, Routing::Drain, "stuck"),
            (Signals { accepting: false, ..WELL }, Routing::Drain, "takes no more"),
            (Signals { disk_full: true, accepting: false, ..WELL }, Routing::Drain, "disk is full"),
            (Signals { presence: Presence::Suspect, ..WELL }, Routing::Drain, "cannot reach"),
            (Signals { breaker: open, ..WELL }, Routing::Drain, "open: no answer 3 times in 12 s"),
            (Signals { breaker: tried, ..WELL }, Routing::Drain, "half open"),
            (Signals { overdue: true, ..WELL }, Routing::Evict, "too long"),
            (Signals { presence: Presence::Gone, ..WELL }, Routing::Evict, "gone"),
        ];
        for (signs, routing, text) in rows {
            let (verdict, why) = route(&signs);
            assert_eq!(verdict, routing, "{signs:?}");
            let why = why.map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(text) && why.is_empty() == text.is_empty(), "{why}");
        }
    }

    /// Of all combinations: the worst sign decides, and only who has none is the first choice.
    #[test]
    fn the_worst_sign_decides() {
        let presences = [Presence::There, Presence::Suspect, Presence::Gone];
        let paces = [Pace::Usual, Pace::Low, Pace::Stuck];
        let breakers = [None, Some((State::Open, tripped())), Some((State::HalfOpen, tripped()))];
        for number in 0..3 * 3 * 3 * 16usize {
            let flag = |place: usize| (number / 27) >> place & 1 == 1;
            let signs = Signals {
                presence: presences[number % 3],
                pace: paces[number / 3 % 3],
                breaker: breakers[number / 9 % 3],
                accepting: !flag(0),
                disk_full: flag(3),
                short_of_memory: flag(1),
                overdue: flag(2),
            };
            let alone = [
                Signals { presence: signs.presence, ..WELL },
                Signals { pace: signs.pace, ..WELL },
                Signals { breaker: signs.breaker, ..WELL },
                Signals { accepting: signs.accepting, ..WELL },
                Signals { disk_full: signs.disk_full, ..WELL },
                Signals { short_of_memory: signs.short_of_memory, ..WELL },
                Signals { overdue: signs.overdue, ..WELL },
            ];
            let worst = alone.iter().map(|one| route(one).0).max();
            assert_eq!(Some(route(&signs).0), worst, "{signs:?}");
            assert_eq!(signs == WELL, route(&signs).0 == Routing::Route);
        }
    }
}
