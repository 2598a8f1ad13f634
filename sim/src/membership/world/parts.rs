//! What the simulated world is made of: faults, clocks, weather, and what is written down of it.

use std::time::Duration;

use ::membership::Change;
use serde::Serialize;

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fault {
    /// Datagrams reach the process late; it sends and keeps time as ever.
    Receive,
    /// Nothing gets in or out, but its clock goes on.
    Both,
    /// The process does not run at all.
    Pause,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Both => "both ways",
            Self::Pause => "pause",
        }
    }
}

/// What a member's clock shows. It counts from the start of its process and may run fast or slow.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    since: Duration,
    shown: Duration,
    rate: f64,
}

impl Clock {
    pub fn started(now: Duration) -> Self {
        Self { since: now, shown: Duration::ZERO, rate: 1.0 }
    }

    pub fn read(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.since);
        // Exact where it matters: a clock that is right shows no rounding.
        self.shown + if self.rate == 1.0 { passed } else { passed.mul_f64(self.rate) }
    }

    /// It goes on from what it shows, at another rate.
    pub fn set_rate(&mut self, now: Duration, rate: f64) {
        *self = Self { since: now, shown: self.read(now), rate };
    }

    /// When it will show `time`.
    pub fn when(&self, time: Duration) -> Duration {
        if time == Duration::MAX {
            return time;
        }
        let ahead = time.saturating_sub(self.shown);
        if self.rate == 1.0 {
            return self.since + ahead;
        }
        // A moment later, or rounding would make it show a little less than asked for.
        self.since + ahead.div_f64(self.rate) + Duration::from_micros(1)
    }
}

/// A death that some member recorded.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub at: Duration,
    pub observer: usize,
    pub subject: usize,
}

/// A change of some member's table.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub at: Duration,
    /// By the clock of the observer.
    pub local: Duration,
    pub observer: usize,
    pub change: Change,
    pub undrained: bool,
}

/// What has been sent, by everybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub datagrams: u64,
    pub bytes: u64,
    pub exchanges: u64,
    pub exchanged_bytes: u64,
}

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub loss: f64,
    pub duplicate: f64,
    /// The share that is held back for up to `late`, so that others overtake them.
    pub reorder: f64,
    pub late: Duration,
    pub latency: (Duration, Duration),
}

impl Weather {
    pub const FINE: Self = Self {
        loss: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        late: Duration::ZERO,
        latency: (Duration::from_micros(500), Duration::from_micros(2000)),
    };
}
