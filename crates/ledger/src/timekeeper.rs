//! How the ledger's time goes on by one member's clock, also while nobody moves it (R9, R27).
//!
//! ```text
//! ledger's time   ──── read at uptime u ──── nobody leads ───────────▶ moved to: what was read + (now - u)
//! ```
//!
//! Every member notes when it last read a time that is later than what it expected; whoever leads
//! next moves the ledger's time by what has passed since. So time without a leader is time. The
//! clock is CLOCK_BOOTTIME, which goes on while processes are stopped and machines sleep, and it
//! starts again with the machine; what was noted is of use to the next process as long as the
//! machine was not restarted.
//!
//! **Time never runs faster than the fastest clock**: what is added is what one clock has counted
//! since it read the ledger's time, and two members' measurements are never added up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The ledger's time in milliseconds, and the machine's uptime when it was read.
pub type Reading = (u64, Duration);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timekeeper {
    last: Option<Reading>,
}

impl Timekeeper {
    /// `noted`: by an earlier process, since the machine was started.
    #[must_use]
    pub fn new(noted: Option<Reading>) -> Self {
        Self { last: noted }
    }

    /// The ledger's time is `now_ms`. By how much it is behind, by this member's clock.
    pub fn read(&mut self, now_ms: u64, uptime: Duration) -> u64 {
        let behind = self.last.map_or(0, |(ms, at)| {
            let passed = uptime.saturating_sub(at).as_millis();
            let expected = ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
            expected.saturating_sub(now_ms)
        });
        if behind == 0 {
            self.last = Some((now_ms, uptime));
        }
        behind
    }

    /// The ledger's time now, by this member's clock. It lies at `now_ms` at least, which is what
    /// was applied last.
    #[must_use]
    pub fn now(&self, now_ms: u64, uptime: Duration) -> u64 {
        let passed =
            |at: Duration| u64::try_from(uptime.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        let expected = self.last.map(|(ms, at)| ms.saturating_add(passed(at)));
        expected.unwrap_or(now_ms).max(now_ms)
    }

    /// To be noted for the next process.
    #[must_use]
    pub fn last(&self) -> Option<Reading> {
        self.last
    }
}

/// A [`Timekeeper`] with the clock that it goes by, for all parts of a node.
pub(crate) struct LedgerClock {
    keeper: Mutex<Timekeeper>,
    uptime: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl LedgerClock {
    pub(crate) fn new(
        noted: Option<Reading>,
        uptime: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self { keeper: Mutex::new(Timekeeper::new(noted)), uptime: Box::new(uptime) }
    }

    fn keeper(&self) -> std::sync::MutexGuard<'_, Timekeeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Timekeeper::read`].
    pub(crate) fn read(&self, now_ms: u64) -> u64 {
        self.keeper().read(now_ms, (self.uptime)())
    }

    /// See [`Timekeeper::now`].
    pub(crate) fn now(&self, now_ms: u64) -> u64 {
        self.keeper().now(now_ms, (self.uptime)())
    }

    pub(crate) fn last(&self) -> Option<Reading> {
        self.keeper().last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_without_a_leader_is_time() {
        let mut keeper = Timekeeper::default();
        assert_eq!(keeper.read(5_000, s(100)), 0);
        assert_eq!(keeper.read(5_000, s(120)), 20_000, "nobody has led for twenty seconds");
        assert_eq!(keeper.read(25_000, s(121)), 1_000, "what passed while it was committed");
    }

    #[test]
    fn a_process_that_starts_again_goes_on_from_what_was_noted() {
        let mut before = Timekeeper::default();
        before.read(5_000, s(100));
        let mut after = Timekeeper::new(before.last());
        assert_eq!(after.read(5_000, s(130)), 30_000);
        let mut other = Timekeeper::new(None);
        assert_eq!(other.read(5_000, s(3)), 0, "another start of the machine: nothing is known");
    }

    #[test]
    fn between_two_readings_the_time_goes_on_by_the_clock() {
        let mut keeper = Timekeeper::default();
        assert_eq!(keeper.now(4_000, s(99)), 4_000, "nothing is known but what was applied");
        keeper.read(5_000, s(100));
        let later = s(100) + Duration::from_millis(700);
        assert_eq!(keeper.now(5_000, later), 5_700);
        assert_eq!(keeper.now(9_000, later), 9_000, "another leader's clock was ahead");
        assert_eq!(keeper.now(5_000, s(90)), 5_000, "it never goes back");
    }

    #[test]
    fn measurements_of_two_members_do_not_add_up() {
        let (mut one, mut two) = (Timekeeper::default(), Timekeeper::default());
        one.read(0, s(10));
        two.read(0, s(50));
        // Both have counted twenty seconds. One moves the time; the other finds nothing to add.
        assert_eq!(one.read(0, s(30)), 20_000);
        assert_eq!(two.read(20_000, s(70)), 0);
    }
}
