//! Readings of this machine's clocks.
//!
//! Durations and leases are measured by CLOCK_BOOTTIME, which goes on while the machine sleeps: a
//! lease must lapse meanwhile (R4). The wall clock is for people and for certificates; it decides
//! nothing else (R9).

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fence::Moment;

thread_local! {
    static RECENT: Cell<Moment> = const { Cell::new(Moment::from_nanos(0)) };
}

/// Elsewhere than on Linux the monotonic clock counts sleep too.
#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// The time since this machine was booted.
#[inline]
pub fn now() -> Moment {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure that it is given; this clock exists everywhere.
    unsafe { libc::clock_gettime(CLOCK, &mut time) };
    let now = Moment::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
    RECENT.set(now);
    now
}

/// The last reading on this thread, for code that has waited for nothing since. Reading the clock
/// eight times per request costs more than parsing its response.
#[inline]
pub fn recent() -> Moment {
    RECENT.get()
}

/// The same moment for timers that count by the standard library's clock; a past one is now.
pub fn instant(at: Moment) -> Instant {
    let (now, instant) = (now(), Instant::now());
    instant + at.since(now)
}

/// The wall clock, as the time since 1970. A clock that is set before 1970 reads as 1970.
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
