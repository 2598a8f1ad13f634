//! Runs a plan on this machine.
//!
//! ```text
//! plan ──compile──▶ Program ──▶ Conductor ──commands──▶ Core (one thread each)
//!                                   ▲                     └─ shards ─ virtual users ─ HTTP clients
//!                                   └───────reports───────────┘
//! ```
//!
//! A core is a thread with a runtime of its own; virtual users are local tasks on it and recorders
//! belong to it, so nothing on the way of a request is shared between threads. Once a second the
//! conductor swaps each core's counters.
//!
//! **Invariant:** a request that was written is counted, whatever became of it or of its virtual
//! user.
//! **Invariant:** nothing per request allocates, locks or logs in the common case (a fixed HTTP/1.1
//! request, no failure).

mod aggregate;
pub mod attempt;
mod conductor;
mod core;
mod json;
pub mod machine;
mod options;
pub mod ping;
mod prepare;
mod program;
mod recorder;
pub mod script;
pub mod secrets;
mod shard;
mod text;
mod timer;
mod trace;
mod user;
mod vars;
mod vu;
mod words;

pub use client::{ca_reads, key_fits};
pub use conductor::Conductor;
pub use options::{Control, Controller, RunOptions};
pub use program::CompileError;
pub use shard::Trace;
