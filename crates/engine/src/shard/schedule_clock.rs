//! A workflow's own time: begins with its load, stands still while paused.

use base::clock;
use fence::Moment;
use std::cell::Cell;
use std::time::Duration;

#[derive(Default)]
pub struct ScheduleClock {
    start: Cell<Moment>,
    /// Where in the schedule it begins.
    from_ns: Cell<u64>,
    paused_ns: Cell<u64>,
    paused_at: Cell<Option<Moment>>,
}

impl ScheduleClock {
    /// The load begins at `at`, and there its schedule stands at `from` (R5a).
    pub fn begin(&self, at: Moment, from: Duration) {
        self.start.set(at);
        self.from_ns.set(from.as_nanos().min(u128::from(u64::MAX)) as u64);
    }

    pub fn has_begun(&self) -> bool {
        let now = self.paused_at.get().unwrap_or_else(clock::now);
        now.as_nanos() >= self.start.get().as_nanos() + self.paused_ns.get()
    }

    /// `at` is the conductor's word, so that all shards stop their clocks at the same moment.
    pub fn pause(&self, at: Moment) {
        if self.paused_at.get().is_none() {
            self.paused_at.set(Some(at));
        }
    }

    pub fn resume(&self, at: Moment) {
        if let Some(paused_at) = self.paused_at.take() {
            self.paused_ns.set(self.paused_ns.get() + at.nanos_since(paused_at));
        }
    }

    pub fn is_paused(&self) -> bool {
        self.paused_at.get().is_some()
    }

    pub fn elapsed(&self) -> Duration {
        let now = self.paused_at.get().unwrap_or_else(clock::now);
        let run = now.nanos_since(self.start.get()).saturating_sub(self.paused_ns.get());
        Duration::from_nanos(run.saturating_add(self.from_ns.get()))
    }

    /// When schedule time `t` will be, if nobody pauses.
    pub fn at(&self, t: Duration) -> Moment {
        let ahead = t.saturating_sub(Duration::from_nanos(self.from_ns.get()));
        self.start.get().after(ahead).after(Duration::from_nanos(self.paused_ns.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_does_not_count() {
        let clock = ScheduleClock::default();
        clock.begin(Moment::from_nanos(1_000), Duration::ZERO);
        clock.pause(Moment::from_nanos(3_000));
        clock.pause(Moment::from_nanos(4_000));
        assert_eq!(clock.elapsed(), Duration::from_nanos(2_000));
        clock.resume(Moment::from_nanos(10_000));
        assert_eq!(clock.at(Duration::from_nanos(2_000)), Moment::from_nanos(10_000));
        assert!(!clock.is_paused());
    }

    #[test]
    fn who_joins_late_begins_where_the_others_are() {
        let clock = ScheduleClock::default();
        clock.begin(Moment::from_nanos(1_000), Duration::from_nanos(500));
        clock.pause(Moment::from_nanos(1_200));
        assert_eq!(clock.elapsed(), Duration::from_nanos(700));
        clock.resume(Moment::from_nanos(1_300));
        assert_eq!(clock.at(Duration::from_nanos(700)), Moment::from_nanos(1_300));
        assert_eq!(
            clock.at(Duration::from_nanos(10)),
            Moment::from_nanos(1_100),
            "the past is the beginning"
        );
    }
}
