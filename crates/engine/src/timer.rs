//! Waits that are finer than a millisecond.

use std::time::Duration;

use base::clock;
use fence::Moment;

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

    pub async fn wait_until(&self, at: Moment) {
        use std::os::fd::AsRawFd;
        let wait = at.nanos_since(clock::now());
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

    pub async fn wait_until(&self, at: Moment) {
        tokio::time::sleep(Duration::from_nanos(at.nanos_since(clock::now()))).await;
    }
}
