//! A workflow's own time: begins with its load, stands still while paused.

use std::cell::Cell;
use std::time::Duration;

use client::Mono;

#[derive(Default)]
pub struct ScheduleClock {
    start: Cell<Mono>,
    /// Where in the schedule it begins.
    from_ns: Cell<u64>,
    paused_ns: Cell<u64>,
    paused_at: Cell<Option<Mono>>,
}

impl ScheduleClock {
    /// The load begins at `at`, and there its schedule stands at `from` (R5a).
    pub fn begin(&self, at: Mono, from: Duration) {
        self.start.set(at);
        self.from_ns.set(from.as_nanos().min(u128::from(u64::MAX)) as u64);
    }

    pub fn has_begun(&self) -> bool {
        let now = self.paused_at.get().unwrap_or_else(Mono::now);
        now.0 >= self.start.get().0 + self.paused_ns.get()
    }

    /// `at` is the conductor's word, so that all shards stop their clocks at the same moment.
    pub fn pause(&self, at: Mono) {
        if self.paused_at.get().is_none() {
            self.paused_at.set(Some(at));
        }
    }

    pub fn resume(&self, at: Mono) {
        if let Some(paused_at) = self.paused_at.take() {
            self.paused_ns.set(self.paused_ns.get() + at.since(paused_at));
        }
    }

    pub fn is_paused(&self) -> bool {
        self.paused_at.get().is_some()
    }

    pub fn elapsed(&self) -> Duration {
        let now = self.paused_at.get().unwrap_or_else(Mono::now);
        let run = now.since(self.start.get()).saturating_sub(self.paused_ns.get());
        Duration::from_nanos(run.saturating_add(self.from_ns.get()))
    }

    /// When schedule time `t` will be, if nobody pauses.
    pub fn at(&self, t: Duration) -> Mono {
        let ahead = t.saturating_sub(Duration::from_nanos(self.from_ns.get()));
        self.start.get().plus(ahead).plus(Duration::from_nanos(self.paused_ns.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_does_not_count() {
        let clock = ScheduleClock::default();
        clock.begin(Mono(1_000), Duration::ZERO);
        clock.pause(Mono(3_000));
        clock.pause(Mono(4_000));
        assert_eq!(clock.elapsed(), Duration::from_nanos(2_000));
        clock.resume(Mono(10_000));
        assert_eq!(clock.at(Duration::from_nanos(2_000)), Mono(10_000));
        assert!(!clock.is_paused());
    }

    #[test]
    fn who_joins_late_begins_where_the_others_are() {
        let clock = ScheduleClock::default();
        clock.begin(Mono(1_000), Duration::from_nanos(500));
        clock.pause(Mono(1_200));
        assert_eq!(clock.elapsed(), Duration::from_nanos(700));
        clock.resume(Mono(1_300));
        assert_eq!(clock.at(Duration::from_nanos(700)), Mono(1_300));
        assert_eq!(clock.at(Duration::from_nanos(10)), Mono(1_100), "the past is the beginning");
    }
}
