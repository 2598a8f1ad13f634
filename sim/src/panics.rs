//! Panics on simulated hosts. A host's runtime goes on without the task that panicked, so a run
//! would not notice by itself.

use std::cell::{Cell, RefCell};

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static CRASHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that tears a host down. A real crash runs no destructors; what they complain
/// about is nobody's fault.
pub fn while_crashing(tear_down: impl FnOnce()) {
    CRASHING.set(true);
    tear_down();
    CRASHING.set(false);
}

/// Something on a host has panicked.
pub fn note(info: String) {
    if CRASHING.get() {
        return;
    }
    eprintln!("{info}");
    // A panic while a panic is noted is not noted.
    let _ = PANICS.try_with(|panics| panics.try_borrow_mut().map(|mut panics| panics.push(info)));
}

/// Panics since the last time.
#[must_use]
pub fn taken() -> Vec<String> {
    PANICS.take()
}
