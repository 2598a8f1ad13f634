//! The job's time: how old it is, when its own clock began, and how long it may take.

use std::time::Duration;

use fence::{Moment, NodeId};

use crate::timeouts::{Denied, Expired, Timeouts};

/// A time as the ledger keeps it.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
pub(super) struct JobTime {
    /// The latest moment that was handed in: it never goes back.
    now: Moment,
    timeouts: Timeouts,
    /// The job's age when anything of it first began: the zero of its own clock.
    began: Option<Duration>,
}

impl JobTime {
    pub fn new(timeouts: Timeouts, now: Moment) -> Self {
        Self { now, timeouts, began: None }
    }

    /// Moves on to `now`, and says by how much.
    pub fn advance(&mut self, now: Moment) -> Duration {
        let before = self.now;
        self.now = before.max(now);
        self.now.since(before)
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    /// So much later than now.
    pub fn after(&self, wait: Duration) -> Moment {
        self.now.after(wait)
    }

    /// Time since the job was created.
    pub fn age(&self) -> Duration {
        self.timeouts.age(self.now)
    }

    /// The job is known to be at least this old. Says by how much it is older than was known.
    pub fn at_least(&mut self, age: Duration) -> Duration {
        let before = self.age();
        self.timeouts.at_least(age, self.now);
        self.age().saturating_sub(before)
    }

    // ── the job's own clock ────────────────────────────────────────────────────────────────────

    pub fn began(&self) -> Option<Duration> {
        self.began
    }

    /// Something begins now; only the first time counts.
    pub fn begin(&mut self) {
        let age = self.age();
        self.began.get_or_insert(age);
    }

    /// Something had begun when the job was so old; the earliest counts.
    pub fn began_by(&mut self, at: Duration) {
        self.began = Some(self.began.map_or(at, |first| first.min(at)));
    }

    /// An owner before knew better.
    pub fn recall(&mut self, began: Option<Duration>) {
        self.began = began.or(self.began);
    }

    /// The time of the job itself, since anything of it first began.
    pub fn clock(&self, at: Moment) -> Duration {
        let age = self.timeouts.age(at);
        age.saturating_sub(self.began.unwrap_or(age))
    }

    /// An age of the job, from a time of its own clock.
    pub fn age_of(&self, clock: Duration) -> Duration {
        self.began.unwrap_or_default().saturating_add(clock)
    }

    // ── how long it may take ───────────────────────────────────────────────────────────────────

    pub fn progressed(&mut self) {
        self.timeouts.progressed(self.now);
    }

    pub fn set_running(&mut self, runs: bool) {
        self.timeouts.set_running(runs, self.now);
    }

    pub fn left(&self) -> Option<Duration> {
        self.timeouts.left(self.now)
    }

    pub fn expired(&self) -> Option<Expired> {
        self.timeouts.check(self.now)
    }

    pub fn due(&self) -> Option<Moment> {
        self.timeouts.due()
    }

    /// A worker asks for more time. `Err`: why not, and whether it is the first time that it hears
    /// so.
    pub fn extend(
        &mut self,
        worker: NodeId,
        progress: u64,
        suspect: bool,
    ) -> Result<Duration, (Denied, bool)> {
        let asked = self.timeouts.ask(worker, progress, suspect, self.now);
        asked.map_err(|denied| (denied, self.timeouts.is_first_denial(worker)))
    }

    pub fn forget(&mut self, worker: NodeId) {
        self.timeouts.forget(worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeouts::Budget;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    /// A job that is ten seconds old at second 100.
    fn time() -> JobTime {
        let budget = Budget::new(None, Duration::from_secs(60));
        let age = Duration::from_secs(10);
        JobTime::new(Timeouts::take_up(budget, age, Duration::ZERO, at(100)), at(100))
    }

    #[test]
    fn time_never_goes_back() {
        let mut time = time();
        assert_eq!(time.advance(at(103)), Duration::from_secs(3));
        assert_eq!(time.advance(at(101)), Duration::ZERO);
        assert_eq!((time.now(), time.age()), (at(103), Duration::from_secs(13)));
    }

    #[test]
    fn the_jobs_own_clock_begins_with_the_first_thing_that_began() {
        let mut time = time();
        assert_eq!(time.clock(at(105)), Duration::ZERO, "nothing has begun");
        time.begin();
        time.advance(at(104));
        time.begin();
        assert_eq!(time.began(), Some(Duration::from_secs(10)));
        assert_eq!(time.clock(at(107)), Duration::from_secs(7));
        time.began_by(Duration::from_secs(8));
        time.began_by(Duration::from_secs(9));
        assert_eq!(time.clock(at(107)), Duration::from_secs(9));
        assert_eq!(time.age_of(Duration::from_secs(2)), Duration::from_secs(10));
    }

    #[test]
    fn a_job_is_as_old_as_whoever_knows_best_says() {
        let mut time = time();
        assert_eq!(time.at_least(Duration::from_secs(4)), Duration::ZERO);
        assert_eq!(time.at_least(Duration::from_secs(15)), Duration::from_secs(5));
        assert_eq!(time.age(), Duration::from_secs(15));
    }
}
