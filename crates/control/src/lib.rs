//! Decisions without deeds: how load divides, who gets which cores, what starts when.
//!
//! ```text
//! plan ──▶ schedule    when iteration i starts, how many virtual users run at t, on which shard
//!     └──▶ allocation  which cores does a workflow get, what runs together
//!               └────▶ job   step(event, now) -> effects: layers, waves, skips, one outcome
//!          budget     how far an attempt that counts iterations may go
//!          detector   who has fallen silent, and whose silence means nothing
//! log  ──▶ ledger      what may happen only once: jobs, owners, attempts, outcomes
//! ```
//!
//! **Invariant:** nothing here reads a clock, draws a random number, touches a file or a socket, or
//! iterates over an unordered map; time is an argument, so every answer can be repeated.

pub mod allocation;
pub mod breaker;
pub mod budget;
pub mod detector;
pub mod fleet;
pub mod job;
pub mod ledger;
pub mod schedule;
