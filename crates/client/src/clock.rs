//! Time inside one process: nanoseconds since the engine's epoch, and waits finer than a
//! millisecond.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static RECENT: Cell<Mono> = const { Cell::new(Mono(0)) };
}

/// The clock that counts the time in which the machine was asleep, too: a lease must lapse meanwhile
/// (R4). Reading it costs the same as the other one. Elsewhere than on Linux the plain one does that.
#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// A point of time on this machine, since it was booted. Never crosses a host boundary (R9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mono(pub u64);

impl Mono {
    pub const MAX: Mono = Mono(u64::MAX);

    #[inline]
    pub fn now() -> Mono {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: fills the structure that it is given; this clock exists everywhere.
        unsafe { libc::clock_gettime(CLOCK, &mut time) };
        let now = Mono(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        RECENT.set(now);
        now
    }

    /// The last reading on this thread. For use where nothing was waited for since: reading the
    /// clock eight times per request costs more than parsing its answer.
    #[inline]
    pub fn recent() -> Mono {
        RECENT.get()
    }

    /// The same reading as others keep it: how long the machine has been up.
    pub fn since_boot(uptime: Duration) -> Mono {
        Mono(uptime.as_nanos().min(u128::from(u64::MAX)) as u64)
    }

    pub fn uptime(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Nanoseconds from `earlier` to `self`, zero if it is later.
    #[inline]
    pub fn since(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub fn plus(self, duration: Duration) -> Mono {
        Mono(self.0.saturating_add(duration.as_nanos().min(u128::from(u64::MAX)) as u64))
    }

    /// The same moment for timers that count in their own way.
    pub fn instant(self) -> Instant {
        let (now, instant) = (Mono::now(), Instant::now());
        match self.0.checked_sub(now.0) {
            Some(ahead) => instant + Duration::from_nanos(ahead),
            None => instant,
        }
    }
}

/// Waits until a point in time, to some tens of microseconds.
///
/// tokio's timers count whole milliseconds; at 20,000 arrivals a second that would bunch twenty of
/// them on each tick and charge the wait to the target. A `timerfd` has no such grain. Elsewhere
/// than on Linux the coarse timer is what there is.
pub struct PreciseTimer {
    #[cfg(target_os = "linux")]
    fd: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl PreciseTimer {
    pub fn new() -> std::io::Result<PreciseTimer> {
        use std::os::fd::{FromRawFd, OwnedFd};
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe {
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let interest = tokio::io::Interest::READABLE;
        // SAFETY: the descriptor is owned by what is registered, and is closed after it is
        // deregistered.
        let fd = unsafe { tokio::io::unix::AsyncFd::register_with_interest(fd, interest) }?;
        Ok(PreciseTimer { fd })
    }

    pub async fn wait_until(&self, at: Mono) {
        use std::os::fd::AsRawFd;
        let wait = at.since(Mono::now());
        if wait == 0 {
            return;
        }
        let raw = self.fd.get_ref().as_raw_fd();
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (wait / 1_000_000_000) as libc::time_t,
                tv_nsec: (wait % 1_000_000_000) as libc::c_long,
            },
        };
        // SAFETY: `spec` lives through the call and the descriptor is ours.
        if unsafe { libc::timerfd_settime(raw, 0, &spec, std::ptr::null_mut()) } != 0 {
            tokio::time::sleep(Duration::from_nanos(wait)).await;
            return;
        }
        let Ok(mut guard) = self.fd.readable().await else { return };
        // Not read: setting the timer again empties it, and readiness is told by edge.
        guard.clear_ready();
    }
}

#[cfg(not(target_os = "linux"))]
impl PreciseTimer {
    pub fn new() -> std::io::Result<PreciseTimer> {
        Ok(PreciseTimer {})
    }

    pub async fn wait_until(&self, at: Mono) {
        tokio::time::sleep(Duration::from_nanos(at.since(Mono::now()))).await;
    }
}
