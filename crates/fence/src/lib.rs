//! The right to act, and the check that a receiver makes of it.
//!
//! ```text
//! authority ──Epoch──▶ owner ──Order(boot, epoch, attempt, act)──▶ Doorkeeper: a Turnstile per job, per shard
//!     │                  │                                             │   lower? refused, and said why
//!     │                  └── Handover: may the next attempt start?     └── ExecutionLease: may I still act?
//!     └── grants a renewal only while the attempt is current                 (own clock, own send time)
//! ```
//!
//! One idea is under all of Volley: every right to act is an epoch that one authority has issued, and every boundary
//! refuses a lower one. It is written here once; the ledger, workers, barriers and captures use it.
//!
//! **Invariant:** nothing here reads a clock, draws a number, or does I/O. Time and ids are handed in.

pub mod canary;
mod doorkeeper;
mod epoch;
mod hlc;
mod id;
pub mod invariant;
mod lease;
mod turnstile;

pub use doorkeeper::{Act, Admission, Doorkeeper, Order, OrderRefusal, Step};
pub use epoch::{Attempt, Epoch, Fence, GroupId};
pub use hlc::{ClockSettings, Hlc, HybridClock, Receipt, Tick};
pub use id::{BootId, IdError, JobId, NodeId, ShardKey, WorkflowNo};
pub use lease::{
    DRIFT_PERCENT, Ended, ExecutionLease, Granted, Handover, Holding, Lapse, Moment, Terms, Ticket,
};
pub use turnstile::{Answered, Capacity, Counts, Passage, Refusal, Turnstile};
