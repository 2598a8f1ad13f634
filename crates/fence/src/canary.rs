//! Known bugs that a simulation puts back on purpose, to prove that it would find them.
//!
//! Without the feature `canary` the question is answered `false` at compile time, and the bug is not in the program.

/// A bug that a control plane of this kind has had somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A majority is counted with oneself in it twice.
    QuorumCountsSelfTwice,
    /// A record is acknowledged before it is on the disk.
    AckBeforeFsync,
    /// Epochs come from a counter that starts again with the process.
    ReuseFenceAfterRestart,
    /// A result that arrives twice is counted twice.
    ApplyResultTwice,
}

impl Canary {
    pub const ALL: [Self; 4] = [
        Self::QuorumCountsSelfTwice,
        Self::AckBeforeFsync,
        Self::ReuseFenceAfterRestart,
        Self::ApplyResultTwice,
    ];
}

#[cfg(feature = "canary")]
mod switch {
    use std::cell::Cell;

    use super::Canary;

    thread_local! {
        static ACTIVE: Cell<Option<Canary>> = const { Cell::new(None) };
    }

    /// Puts one bug back, on this thread.
    pub fn set(canary: Option<Canary>) {
        ACTIVE.set(canary);
    }

    /// Whether this bug is to be made.
    pub fn active(canary: Canary) -> bool {
        ACTIVE.get() == Some(canary)
    }
}

#[cfg(feature = "canary")]
pub use switch::{active, set};

/// Whether this bug is to be made: never, in this build.
#[cfg(not(feature = "canary"))]
#[must_use]
pub const fn active(_: Canary) -> bool {
    false
}
