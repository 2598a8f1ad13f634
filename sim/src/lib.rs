//! Whole nodes on a simulated network and disk, from a seed.
//!
//! ```text
//! parent ──▶ one child process per seed ──▶ scenario: hosts on turmoil, disks in memory, faults, clients
//!    ▲                                          │
//!    └──────── one line of JSON: outcome ◀──────┘  invariants, client oracle, linearizability, trace hash
//! ```
//!
//! The same seed gives the same run: every source of time, chance and order is either simulated or
//! answered from the seed (`shim`), and the hash over everything observable (`trace`) is compared
//! to prove it.

pub mod campaign;
pub mod canary;
pub mod child;
mod cluster;
mod ledger;
pub mod linear;
pub mod membership;
mod names;
pub mod outcome;
mod panics;
pub mod report;
pub mod scenario;
pub mod shim;
pub mod trace;
mod transport;
