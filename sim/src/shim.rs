//! Where entropy and time come from while a seed runs: the seed, and the simulated clock.
//!
//! Libraries ask the operating system directly (std for the keys of its hash maps, tokio for its
//! generator, hyper for the date header, rand for its seeds), so the questions are answered at the
//! last place that they all share: the C library's functions. Each override is per thread and
//! opt-in. A thread that did not ask for it gets the real call.

use base::random::SplitMix64;
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_long, c_uint, c_void, clockid_t, size_t, ssize_t, timespec, timeval};

/// What the simulated wall clock shows at simulated time zero: 2026-01-01T00:00:00Z.
pub const WALL_START_MS: u64 = 1_767_225_600_000;

thread_local! {
    /// State of the generator that answers for the operating system's; `None`: the real one does.
    static ENTROPY: Cell<Option<u64>> = const { Cell::new(None) };
    /// Simulated time in nanoseconds; `None`: the real clock.
    static NOW: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From here on this thread's entropy follows from `seed`, and its time stands still until
/// [`set_time`] moves it.
pub fn install(seed: u64) {
    ENTROPY.set(Some(seed));
    NOW.set(Some(0));
}

/// Moves this thread's clocks.
pub fn set_time(nanoseconds: u64) {
    NOW.set(Some(nanoseconds));
}

/// Fills the buffer from the seed; false if this thread asked for the real thing.
fn fill(buffer: *mut c_void, bytes: size_t) -> bool {
    let Ok(Some(state)) = ENTROPY.try_with(Cell::get) else { return false };
    // SAFETY: the caller of getrandom owns `bytes` bytes at `buffer`.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
    let mut random = SplitMix64::new(state);
    for chunk in buffer.chunks_mut(8) {
        let word = random.draw().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    ENTROPY.set(Some(random.state()));
    true
}

/// The C library's own function of that name, found once.
fn real(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: dlsym reads a C string and gives a pointer or null.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has no {}", name.to_string_lossy());
    slot.store(found, Ordering::Relaxed);
    found
}

type GetRandom = unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t;
type Syscall =
    unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
type ClockGetTime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
type GetTimeOfDay = unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int;

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, bytes: size_t, flags: c_uint) -> ssize_t {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if fill(buffer, bytes) {
        return bytes as ssize_t;
    }
    // SAFETY: the symbol of that name has this type.
    let real: GetRandom = unsafe { std::mem::transmute(real(&REAL, c"getrandom")) };
    // SAFETY: the caller's promise, passed on.
    unsafe { real(buffer, bytes, flags) }
}

/// Some libraries reach `getrandom` by its number.
///
/// # Safety
/// As the C library's. The original takes a variable number of words; on the machines this runs on
/// they travel in the same registers as seven fixed ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if number == libc::SYS_getrandom && fill(a as *mut c_void, b as size_t) {
        return b;
    }
    // SAFETY: the symbol of that name accepts this call.
    let real: Syscall = unsafe { std::mem::transmute(real(&REAL, c"syscall")) };
    // SAFETY: the caller's promise, passed on.
    unsafe { real(number, a, b, c, d, e, f) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let Ok(Some(now)) = NOW.try_with(Cell::get) {
        let base = if clock == libc::CLOCK_REALTIME { WALL_START_MS * 1_000_000 } else { 1 << 40 };
        let now = base + now;
        // SAFETY: the caller owns `out`.
        unsafe {
            (*out).tv_sec = (now / 1_000_000_000) as libc::time_t;
            (*out).tv_nsec = (now % 1_000_000_000) as c_long;
        }
        return 0;
    }
    // SAFETY: the symbol of that name has this type.
    let real: ClockGetTime = unsafe { std::mem::transmute(real(&REAL, c"clock_gettime")) };
    // SAFETY: the caller's promise, passed on.
    unsafe { real(clock, out) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(out: *mut timeval, zone: *mut c_void) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let Ok(Some(now)) = NOW.try_with(Cell::get) {
        let now = WALL_START_MS * 1_000 + now / 1_000;
        // SAFETY: the caller owns `out`.
        unsafe {
            (*out).tv_sec = (now / 1_000_000) as libc::time_t;
            (*out).tv_usec = (now % 1_000_000) as libc::suseconds_t;
        }
        return 0;
    }
    // SAFETY: the symbol of that name has this type.
    let real: GetTimeOfDay = unsafe { std::mem::transmute(real(&REAL, c"gettimeofday")) };
    // SAFETY: the caller's promise, passed on.
    unsafe { real(out, zone) }
}

// The tests look at the real calls, and at what became of them.
#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::collections::hash_map::RandomState;
    use std::hash::BuildHasher;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use super::*;

    /// The first draw of a fresh thread; std keeps the keys of its hash maps per thread.
    fn draw(seed: u64) -> u64 {
        std::thread::spawn(move || {
            install(seed);
            RandomState::new().hash_one(1_u8)
        })
        .join()
        .expect("the thread ends")
    }

    #[test]
    fn hash_keys_follow_the_seed() {
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn clocks_stand_still_until_they_are_moved() {
        std::thread::spawn(|| {
            install(1);
            let (start, wall) = (Instant::now(), SystemTime::now());
            assert_eq!(
                wall.duration_since(UNIX_EPOCH).expect("after 1970").as_millis(),
                u128::from(WALL_START_MS)
            );
            assert_eq!(start.elapsed(), Duration::ZERO);
            set_time(1_500_000_000);
            assert_eq!(start.elapsed(), Duration::from_millis(1_500));
            assert_eq!(wall.elapsed().expect("not back"), Duration::from_millis(1_500));
        })
        .join()
        .expect("the thread ends");
    }

    #[test]
    fn a_thread_that_did_not_ask_gets_the_real_clock() {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(start.elapsed() >= Duration::from_millis(2));
    }
}
