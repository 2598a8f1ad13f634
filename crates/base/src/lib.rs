//! What every crate may need and none should write again.
//!
//! - [`clock`]: readings of the machine's clocks. Crates that decide (`control`, `stats`, `plan`)
//!   are handed the time instead; their `clippy.toml` refuses this module.
//! - [`random`]: deterministic random numbers from a seed.
//! - [`names`]: the closest name to a misspelt one.
//! - [`checked`]: small files with a magic number, a version and a checksum.
//! - [`detector`]: who has fallen silent.
//! - [`lock`]: a mutex that survives a panic.

pub mod checked;
pub mod clock;
pub mod detector;
pub mod names;
pub mod random;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Takes a mutex that guards plain data. A panic elsewhere cannot have left such data half written,
/// so a poisoned mutex is as good as any.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A duration in whole milliseconds, as messages and the ledger carry it.
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
