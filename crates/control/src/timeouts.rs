//! When a job has had its time, and when nothing moves any more.
//!
//! Time is what the *ledger* has counted since the job was created, so a successor goes on where
//! the owner was; progress is a count that rises or a step forward, not any change of state; the
//! stuck clock runs only while something should move; two workers that are extended at the same
//! time do not add up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fence::{Moment, NodeId};

/// What a job may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// From its creation; `None`: as long as its workflows take.
    pub timeout: Option<Duration>,
    pub stuck_after: Duration,
    /// The most that the timeout may be extended by.
    pub extension_max: Duration,
}

impl Budget {
    #[must_use]
    pub fn new(timeout: Option<Duration>, stuck_after: Duration) -> Self {
        let extension_max = timeout.map_or(Duration::ZERO, |timeout| timeout / 2);
        Self { timeout, stuck_after, extension_max }
    }
}

/// Why a job's time is over. The texts are those of LIFE-48.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    Overall { elapsed: Duration, base: Duration, extension: Duration },
    Stuck { quiet: Duration, unextended: Option<Duration> },
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overall { elapsed, base, extension } => write!(
                f,
                "job timeout exceeded ({:.1}s > {:.1}s, base={:.1}s + extensions={:.1}s)",
                elapsed.as_secs_f64(),
                (*base + *extension).as_secs_f64(),
                base.as_secs_f64(),
                extension.as_secs_f64()
            ),
            Self::Stuck { quiet, unextended: Some(unextended) } => write!(
                f,
                "job stuck (no progress for {:.1}s, no extensions for {:.1}s)",
                quiet.as_secs_f64(),
                unextended.as_secs_f64()
            ),
            Self::Stuck { quiet, unextended: None } => {
                write!(f, "job stuck (no progress for {:.1}s, never extended)", quiet.as_secs_f64())
            }
        }
    }
}

/// GATE-99, GATE-100: one worker's extensions. Each is half of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extensions {
    count: u32,
    progress: u64,
    total: Duration,
}

/// Why no extension was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// All five were granted.
    Exhausted { most: u32 },
    /// Nothing has moved since the last one.
    NoProgress { last: u64, now: u64 },
    /// The job has no timeout, or has been extended as far as it may.
    AtLimit { limit: Duration },
    /// Membership takes the worker for dead.
    Suspect,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { most } => write!(f, "it was extended {most} times"),
            Self::NoProgress { last, now } => {
                write!(f, "nothing was done since the last extension ({last} then, {now} now)")
            }
            Self::AtLimit { limit } => {
                write!(f, "a job is extended by {:.1} s at most", limit.as_secs_f64())
            }
            Self::Suspect => f.write_str("it is not known to be alive"),
        }
    }
}

const BASE: Duration = Duration::from_secs(30);
const LEAST: Duration = Duration::from_secs(1);
pub const EXTENSIONS_MAX: u32 = 5;

/// GATE-99: 15, 7.5, 3.75, 1.875, 1 second.
#[must_use]
pub fn grant(before: u32) -> Duration {
    (BASE / 2u32.saturating_pow(before.saturating_add(1).min(31))).max(LEAST)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    budget: Budget,
    /// The job's age, by the ledger's time, when this owner took it up.
    age: Duration,
    taken_up: Moment,
    /// As it is committed; workers below add to it only when theirs is longer.
    extension: Duration,
    workers: BTreeMap<NodeId, Extensions>,
    /// Who was told no, so that it is said once.
    denied: BTreeSet<NodeId>,
    last_extension: Option<Moment>,
    progress: Moment,
    /// Something is under way that should move.
    runs: bool,
}

impl Timeouts {
    /// A takeover does not count as a standstill: the stuck clock starts anew.
    #[must_use]
    pub fn take_up(budget: Budget, age: Duration, extension: Duration, now: Moment) -> Self {
        Self {
            budget,
            age,
            taken_up: now,
            extension,
            workers: BTreeMap::new(),
            denied: BTreeSet::new(),
            last_extension: None,
            progress: now,
            runs: false,
        }
    }

    /// Time since the job was created.
    #[must_use]
    pub fn age(&self, now: Moment) -> Duration {
        self.age + now.since(self.taken_up)
    }

    /// It is known to be at least this old now. The ledger's time stands still while nobody leads
    /// it, and what runs does not.
    pub fn at_least(&mut self, age: Duration, now: Moment) {
        self.age += age.saturating_sub(self.age(now));
    }

    /// Until the job's time is over, with what it was extended by.
    #[must_use]
    pub fn left(&self, now: Moment) -> Option<Duration> {
        let base = self.budget.timeout?;
        Some((base + self.extension).saturating_sub(self.age(now)))
    }

    pub fn progressed(&mut self, now: Moment) {
        self.progress = now;
    }

    /// Whether something should be moving. The clock starts when it begins to.
    pub fn set_running(&mut self, runs: bool, now: Moment) {
        if runs && !self.runs {
            self.progress = now;
        }
        self.runs = runs;
    }

    /// A worker asks for more time. What is granted has to be committed as the job's total.
    pub fn ask(
        &mut self,
        worker: NodeId,
        progress: u64,
        suspect: bool,
        now: Moment,
    ) -> Result<Duration, Denied> {
        let limit = self.budget.extension_max;
        if suspect {
            return Err(Denied::Suspect);
        }
        let mut theirs = self.workers.get(&worker).copied().unwrap_or_default();
        if theirs.count >= EXTENSIONS_MAX {
            return Err(Denied::Exhausted { most: EXTENSIONS_MAX });
        }
        if theirs.count > 0 && progress <= theirs.progress {
            return Err(Denied::NoProgress { last: theirs.progress, now: progress });
        }
        let total = (theirs.total + grant(theirs.count)).min(limit);
        if total <= theirs.total {
            return Err(Denied::AtLimit { limit });
        }
        theirs = Extensions { count: theirs.count + 1, progress, total };
        self.workers.insert(worker, theirs);
        self.extension = self.extension.max(total);
        self.last_extension = Some(now);
        self.progress = now;
        Ok(self.extension)
    }

    /// Whether this is the first time that the worker gets none; it goes on asking.
    pub fn is_first_denial(&mut self, worker: NodeId) -> bool {
        self.denied.insert(worker)
    }

    /// LIFE-82: a lost worker holds no extension; what was granted stays granted.
    pub fn forget(&mut self, worker: NodeId) {
        self.workers.remove(&worker);
        self.denied.remove(&worker);
    }

    /// What is due to end the job. Overall first, then stuck (LIFE-46); strictly later than the
    /// limit (LIFE-42).
    #[must_use]
    pub fn check(&self, now: Moment) -> Option<Expired> {
        if let Some(base) = self.budget.timeout {
            let (elapsed, extension) = (self.age(now), self.extension);
            if elapsed > base + extension {
                return Some(Expired::Overall { elapsed, base, extension });
            }
        }
        let quiet = now.since(self.progress);
        let unextended = self.last_extension.map(|last| now.since(last));
        let stuck = self.runs
            && quiet > self.budget.stuck_after
            && unextended.is_none_or(|time| time > self.budget.stuck_after);
        stuck.then_some(Expired::Stuck { quiet, unextended })
    }

    /// When to look again.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        let a_little = Duration::from_millis(1);
        let overall = self.budget.timeout.map(|base| {
            let left = (base + self.extension).saturating_sub(self.age);
            self.taken_up.after(left + a_little)
        });
        let moved = self.last_extension.map_or(self.progress, |last| last.max(self.progress));
        let stuck = self.runs.then(|| moved.after(self.budget.stuck_after + a_little));
        overall.into_iter().chain(stuck).min()
    }
}

#[cfg(test)]
mod tests;
