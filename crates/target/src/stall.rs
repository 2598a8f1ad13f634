//! Stalls: windows in which the whole server stands still, as a long garbage collection would make
//! it.
//!
//! ```text
//! first request                 at            at + for
//!      │─────────────────────────│▒▒▒▒▒▒▒▒▒▒▒▒▒▒│────────►
//!                       arrives before, not yet answered: waits ─┘
//!                                 arrives inside: waits ─────────┘
//! ```
//!
//! The clock starts with the first request, not with the server, so that a test knows where in its
//! own run the window lies however long it took to start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::config::Stall;

pub(crate) struct Stalls {
    windows: Vec<Stall>,
    started: Instant,
    /// First request in nanoseconds after `started`, plus one; 0: there has been none.
    origin: AtomicU64,
}

impl Stalls {
    pub(crate) fn new(windows: Vec<Stall>, now: Instant) -> Self {
        Stalls { windows, started: now, origin: AtomicU64::new(0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// The first request starts the clock; later ones find it running.
    pub(crate) fn start_clock(&self, now: Instant) {
        if self.origin.load(Ordering::Relaxed) == 0 {
            let origin = self.nanos(now) + 1;
            // another thread may have been first, which is as good
            let _ = self.origin.compare_exchange(0, origin, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The next request starts the clock anew.
    pub(crate) fn reset(&self) {
        self.origin.store(0, Ordering::Relaxed);
    }

    /// When the window that `now` lies in is over; `None` outside of all windows.
    pub(crate) fn over_at(&self, now: Instant) -> Option<Instant> {
        let origin = self.origin.load(Ordering::Relaxed).checked_sub(1)?;
        let origin = self.started + Duration::from_nanos(origin);
        let elapsed = now.saturating_duration_since(origin);
        let inside = |w: &&Stall| w.at <= elapsed && elapsed < w.at + w.for_;
        self.windows.iter().filter(inside).map(|w| origin + w.at + w.for_).max()
    }

    /// Waits until no window is open; says whether it had to.
    pub(crate) async fn pass(&self) -> bool {
        let mut held = false;
        // windows may overlap or touch, so look again after each
        while let Some(over) = self.over_at(Instant::now()) {
            held = true;
            tokio::time::sleep_until(over.into()).await;
        }
        held
    }

    fn nanos(&self, now: Instant) -> u64 {
        let nanos = now.saturating_duration_since(self.started).as_nanos();
        u64::try_from(nanos).expect("a server runs for less than 584 years")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_window_is_counted_from_the_first_request_and_excludes_its_end() {
        let start = Instant::now();
        let stalls = Stalls::new(vec![Stall { at: ms(100), for_: ms(50) }], start);
        assert_eq!(stalls.over_at(start + ms(120)), None, "no request yet, no window");

        let first = start + ms(1000);
        stalls.start_clock(first);
        stalls.start_clock(first + ms(70));
        let over = Some(first + ms(150));
        for (after, expected) in [(0, None), (99, None), (100, over), (149, over), (150, None)] {
            assert_eq!(stalls.over_at(first + ms(after)), expected, "{after} ms");
        }
    }

    #[test]
    fn overlapping_windows_last_as_long_as_the_longest() {
        let start = Instant::now();
        let windows = vec![Stall { at: ms(0), for_: ms(10) }, Stall { at: ms(5), for_: ms(20) }];
        let stalls = Stalls::new(windows, start);
        stalls.start_clock(start);
        assert_eq!(stalls.over_at(start + ms(7)), Some(start + ms(25)));
    }

    #[test]
    fn a_reset_waits_for_a_new_first_request() {
        let start = Instant::now();
        let stalls = Stalls::new(vec![Stall { at: ms(0), for_: ms(10) }], start);
        stalls.start_clock(start);
        stalls.reset();
        assert_eq!(stalls.over_at(start + ms(5)), None);
        stalls.start_clock(start + ms(500));
        assert_eq!(stalls.over_at(start + ms(505)), Some(start + ms(510)));
    }
}
