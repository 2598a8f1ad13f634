//! The right to act, and the check that a receiver makes of it.
//!
//! ```text
//! authority ──Epoch──▶ owner ──FencedCommand──▶ CommandFence: fencing tables of jobs and of shards
//!     │                  │      (boot, epoch,     │   lower? refused, and said why
//!     │                  │       attempt, act)    └── ExecutionLease: may I still act?
//!     │                  └── Handover: may the next attempt start?
//!     └── grants a renewal only while the attempt is current      (own clock, own send time)
//! ```
//!
//! One idea is under all of Volley: every right to act is an epoch that one authority has issued,
//! and every boundary refuses a lower one. It is written here once; the ledger, workers, barriers
//! and captures use it.
//!
//! **Invariant:** nothing here reads a clock, draws a number, or does I/O. Time and ids are handed
//! in.

pub mod canary;
mod command_fence;
mod epoch;
mod fencing_table;
mod hlc;
mod id;
pub mod invariant;
mod lease;

pub use command_fence::{Act, Admission, CommandFence, FenceRefusal, FencedCommand, Step};
pub use epoch::{Attempt, Epoch, Fence, GroupId};
pub use fencing_table::{Answered, Capacity, Counts, FencingTable, Passage, Refusal};
pub use hlc::{ClockSettings, Hlc, HybridClock, Receipt, Tick};
pub use id::{BootId, IdError, JobId, NodeId, ShardKey, WorkflowNo};
pub use lease::{
    DRIFT_PERCENT, Ended, ExecutionLease, Granted, Handover, Holding, Lapse, LeaseTerms, Moment,
    Ticket,
};
