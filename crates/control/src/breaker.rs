//! A circuit breaker: who has not answered three times within half a minute is left alone for a
//! while, then tried once.
//!
//! ```text
//! CLOSED ── 3 failures within 30 s ──▶ OPEN ── 10 s ──▶ HALF OPEN, one trial ── answered ──▶ CLOSED
//!                                       ▲                          │
//!                                       ╰────── not answered ──────╯
//! ```
//!
//! **What counts** is what says something about the target: it could not be reached, or it did not
//! answer in time. A refusal by name (a fence, no cores, draining, no majority) is an answer.
//!
//! **Failures that overlap are one**. When a connection breaks, everything that was under way on it
//! fails at once; that is one piece of evidence. So a failure counts only if its message was sent
//! after the last one counted. For the same reason nothing that was sent before the breaker opened
//! or closed changes it any more.
//!
//! **A word from the target itself ends the cool-down** ([`Breaker::heard`]): a process that stood
//! still and runs again says so long before ten seconds are over. It does not close the breaker,
//! because a target that can speak need not be one that can be reached. It brings the trial
//! forward, and a target that only speaks is tried once a second.
//!
//! **Nothing latches.** A trial whose end nobody tells (its task was dropped) is given up after
//! another cool-down, and failures are forgotten with their window.
//!
//! Some messages must go out whatever the breaker says, stops for instance: [`Breaker::insist`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use fence::Moment;

#[cfg(test)]
mod tests;

/// How long it stays open at least, whatever is heard.
const OPEN_AT_LEAST: Duration = Duration::from_secs(1);

/// When a breaker opens, and for how long (ARCH-134).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// So many failures ...
    pub failures: usize,
    /// ... within so much time open it.
    pub within: Duration,
    /// From the opening to the trial.
    pub cool_down: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let (within, cool_down) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { failures: 3, within, cool_down }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Closed,
    /// Its cool-down is over: it is tried once, or is being tried.
    HalfOpen,
    Open,
}

/// What says that something is wrong with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or it broke.
    NotReached,
    /// Nothing came within the deadline.
    NoAnswer,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReached => "not reached",
            Self::NoAnswer => "no answer",
        })
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Refusals are answers.
    Answered,
    Failed(Failure),
}

/// The leave to send one message; it comes back with what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Permit {
    sent: Moment,
    trial: bool,
}

/// What an outcome has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Also when its trial has failed.
    Opened,
    Closed,
}

/// Why it is not closed, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tripped {
    /// The last one of them.
    pub failure: Failure,
    pub failures: usize,
    /// From the first to the last.
    pub span: Duration,
    /// Trials that have failed since.
    pub trials: u32,
}

impl fmt::Display for Tripped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failure, failures, span, trials } = self;
        write!(f, "{failure} {failures} times in {} s", span.as_secs().max(1))?;
        match trials {
            0 => Ok(()),
            1 => f.write_str(", nor when tried again"),
            more => write!(f, ", nor when tried again {more} times"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Open { until: Moment, tripped: Tripped },
    Trial { sent: Moment, tripped: Tripped },
}

/// The breaker in front of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    settings: Settings,
    phase: Phase,
    /// When it last opened or closed.
    changed: Moment,
    /// Those that count, oldest first. Never more than it takes to open.
    failures: VecDeque<Moment>,
}

impl Breaker {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let (phase, changed) = (Phase::Closed, Moment::default());
        Self { settings, phase, changed, failures: VecDeque::new() }
    }

    /// `None`: nothing is to be sent now. After the cool-down one permit is given, which is the
    /// trial.
    pub fn ask(&mut self, now: Moment) -> Option<Permit> {
        match self.phase {
            Phase::Closed => Some(Permit { sent: now, trial: false }),
            Phase::Open { .. } | Phase::Trial { .. } if !self.is_due(now) => None,
            Phase::Open { tripped, .. } | Phase::Trial { tripped, .. } => {
                self.phase = Phase::Trial { sent: now, tripped };
                Some(Permit { sent: now, trial: true })
            }
        }
    }

    /// For what must be tried whatever the state is. If a trial is due, this is it.
    pub fn insist(&mut self, now: Moment) -> Permit {
        self.ask(now).unwrap_or(Permit { sent: now, trial: false })
    }

    /// What became of what was sent with this permit.
    pub fn note(&mut self, permit: Permit, outcome: Outcome, now: Moment) -> Option<Change> {
        match (self.phase, outcome) {
            (Phase::Closed, Outcome::Failed(failure)) => self.failed(permit, failure, now),
            (Phase::Trial { sent, tripped }, outcome)
                if permit == (Permit { sent, trial: true }) =>
            {
                Some(match outcome {
                    Outcome::Answered => self.close(now),
                    Outcome::Failed(failure) => {
                        let trials = tripped.trials.saturating_add(1);
                        self.open(Tripped { failure, trials, ..tripped }, now)
                    }
                })
            }
            _ => None,
        }
    }

    /// The target has said something by itself.
    pub fn heard(&mut self) {
        if let Phase::Open { until, tripped } = self.phase {
            let until = until.min(self.changed.after(OPEN_AT_LEAST));
            self.phase = Phase::Open { until, tripped };
        }
    }

    fn failed(&mut self, permit: Permit, failure: Failure, now: Moment) -> Option<Change> {
        let last = self.failures.back().copied().unwrap_or_default().max(self.changed);
        if permit.sent < last {
            return None;
        }
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|at| now.since(*at) > self.settings.within) {
            self.failures.pop_front();
        }
        if self.failures.len() < self.settings.failures {
            return None;
        }
        let span = self.failures.front().map(|first| now.since(*first)).unwrap_or_default();
        let failures = self.failures.len();
        Some(self.open(Tripped { failure, failures, span, trials: 0 }, now))
    }

    fn open(&mut self, tripped: Tripped, now: Moment) -> Change {
        self.phase = Phase::Open { until: now.after(self.settings.cool_down), tripped };
        self.changed = now;
        self.failures.clear();
        Change::Opened
    }

    fn close(&mut self, now: Moment) -> Change {
        self.phase = Phase::Closed;
        self.changed = now;
        Change::Closed
    }

    #[must_use]
    pub fn state(&self, now: Moment) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Trial { .. } => State::HalfOpen,
            Phase::Open { until, .. } if until <= now => State::HalfOpen,
            Phase::Open { .. } => State::Open,
        }
    }

    /// Whether it waits for a trial that nobody has begun.
    #[must_use]
    pub fn is_due(&self, now: Moment) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Open { until, .. } => until <= now,
            Phase::Trial { sent, .. } => now.since(sent) >= self.settings.cool_down,
        }
    }

    /// Why it is not closed.
    #[must_use]
    pub fn tripped(&self) -> Option<Tripped> {
        match self.phase {
            Phase::Closed => None,
            Phase::Open { tripped, .. } | Phase::Trial { tripped, .. } => Some(tripped),
        }
    }
}

/// One breaker per target, so that a bad one affects nobody else (ARCH-136).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakers<K> {
    settings: Settings,
    /// Only those that have failed before.
    by_target: BTreeMap<K, Breaker>,
    opened: u64,
}

impl<K: Ord + Copy> Breakers<K> {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, by_target: BTreeMap::new(), opened: 0 }
    }

    /// See [`Breaker::ask`].
    pub fn ask(&mut self, target: K, now: Moment) -> Option<Permit> {
        match self.by_target.get_mut(&target) {
            Some(breaker) => breaker.ask(now),
            None => Some(Permit { sent: now, trial: false }),
        }
    }

    /// See [`Breaker::insist`].
    pub fn insist(&mut self, target: K, now: Moment) -> Permit {
        self.ask(target, now).unwrap_or(Permit { sent: now, trial: false })
    }

    /// See [`Breaker::note`].
    pub fn note(
        &mut self,
        target: K,
        permit: Permit,
        outcome: Outcome,
        now: Moment,
    ) -> Option<Change> {
        let breaker = match (self.by_target.get_mut(&target), outcome) {
            (Some(breaker), _) => breaker,
            (None, Outcome::Answered) => return None,
            (None, Outcome::Failed(_)) => {
                self.by_target.entry(target).or_insert_with(|| Breaker::new(self.settings))
            }
        };
        let change = breaker.note(permit, outcome, now);
        self.opened += u64::from(change == Some(Change::Opened));
        change
    }

    /// Targets that have said something by themselves. See [`Breaker::heard`].
    pub fn heard(&mut self, is_it: impl Fn(K) -> bool) {
        let heard = self.by_target.iter_mut().filter(|(target, _)| is_it(**target));
        heard.for_each(|(_, breaker)| breaker.heard());
    }

    #[must_use]
    pub fn state(&self, target: K, now: Moment) -> State {
        self.by_target.get(&target).map_or(State::Closed, |breaker| breaker.state(now))
    }

    /// Why a target's breaker is not closed.
    #[must_use]
    pub fn tripped(&self, target: K) -> Option<Tripped> {
        self.by_target.get(&target).and_then(Breaker::tripped)
    }

    /// The targets that wait for a trial.
    pub fn due(&self, now: Moment) -> impl Iterator<Item = K> {
        self.by_target.iter().filter(move |(_, breaker)| breaker.is_due(now)).map(|(key, _)| *key)
    }

    /// Forgets targets that are gone.
    pub fn retain(&mut self, mut is_there: impl FnMut(K) -> bool) {
        self.by_target.retain(|target, _| is_there(*target));
    }

    /// How often one has opened so far.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// How many are not closed.
    #[must_use]
    pub fn not_closed(&self) -> usize {
        self.by_target.values().filter(|breaker| breaker.tripped().is_some()).count()
    }
}
