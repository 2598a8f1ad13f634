//! The fleet's decisions, without I/O: the owner that leads a job, the worker that carries it out,
//! and what managers decide about jobs and workers.
//!
//! ```text
//!  ledger ◀──commit── Owner ──Reserve, Dispatch, Start, Stop──▶ Worker ──▶ engine (one thread per attempt)
//!                       ▲                                          │
//!                       └────────── Ready, frames, Ended ──────────┘      RenewRequest ──▶ any manager
//! ```
//!
//! Both sides are `step(event, now) -> effects`; what they say to each other is in [`message`], how
//! it travels in [`codec`]. Rights come from the ledger alone: an owner acts under its epoch, a
//! worker under an attempt that the ledger holds as current.
//!
//! **Invariant:** nothing here reads a clock, draws a random number, touches a file or a socket, or
//! iterates over an unordered map; time is an argument, so every answer can be repeated.
//! **Invariant:** an attempt that was not committed is never dispatched, and a shard has one live
//! attempt. **Invariant:** every message can be sent again; the second does nothing and gets the
//! answer of the first.

pub mod breaker;
pub mod budget;
pub mod claims;
pub mod codec;
pub mod group;
pub mod late;
pub mod message;
pub mod outbox;
pub mod owner;
pub mod pool;
pub mod queue;
pub mod relay;
pub mod routing;
pub mod statistics;
pub mod timeouts;
pub mod worker;
