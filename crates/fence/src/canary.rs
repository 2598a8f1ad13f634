//! Known bugs that a simulation puts back on purpose, to prove that it would find them.
//!
//! Without the feature `canary` the question is answered `false` at compile time, and the bug is
//! not in the program.

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
    /// A new attempt starts while the lease of the one before may still hold.
    NoWaitForLease,
    /// A new owner waits for the leases that it would grant, not for those that were granted.
    OtherLease,
    /// A renewal is granted by what this manager happens to know.
    StaleRenewal,
    /// A frame that comes again is counted again.
    FrameTwice,
    /// A manager that told a new owner its checkpoint takes another one from the owner before.
    NoPromise,
    /// A damaged checkpoint counts as none.
    DamageIsNothing,
    /// Iterations that nobody has run are not counted as dropped.
    DropsSilently,
    /// What does not reach its owner is not passed on.
    NoRelay,
    /// What an attempt counted before it was stopped is thrown away.
    LastCountsLost,
    /// Counts that went with their thread are not missed.
    LossNotTold,
    /// An error of the plan is taken for one of the machine, and run again elsewhere.
    ErrorRetried,
    /// A script's wish to end its job is not passed on.
    AbortIgnored,
    /// A block of rows begins with the last row of the one before.
    RowsOverlap,
    /// A worker acknowledges a pause and does not pass it on to its attempts.
    PauseLost,
    /// Voters change although running jobs have no checkpoint with the present ones.
    VotersUnsettled,
    /// A manager that has lost a blob does not ask the others for it.
    BlobNotSought,
    /// Blobs are collected although jobs refer to them.
    CollectsInUse,
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
