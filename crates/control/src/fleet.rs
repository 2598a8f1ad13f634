//! One job on many machines: the owner that leads it, the worker that carries it out.
//!
//! ```text
//!  ledger ◀──commit── Owner ──Reserve, Dispatch, Start, Stop──▶ Worker ──▶ engine (one thread per attempt)
//!                       ▲                                          │
//!                       └────────── Ready, frames, Ended ──────────┘      Renew ──▶ any manager
//! ```
//!
//! Both sides are `step(event, now) -> effects`; what they say to each other is in [`message`], how it travels in
//! [`codec`]. Rights come from the ledger alone: an owner acts under its epoch, a worker under an attempt that the
//! ledger holds as current.
//!
//! **Invariant:** an attempt that was not committed is never dispatched, and a shard has one live attempt.
//! **Invariant:** every message can be sent again; the second does nothing and gets the answer of the first.

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
