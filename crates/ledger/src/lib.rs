//! The ledger: one Raft group that decides what may happen only once.
//!
//! ```text
//! Node ── propose, retry, submit ──▶ requests (numbered once) ─▶ proposals (batches) ─▶ Raft ─▶ store (wal, snapshots)
//!      ── read ─────────────────────▶ reads (confirmed by a majority)                    │
//!      ── put_blob, get_blob ───────▶ copies (on a majority)                             ▼
//!      ── change_members ───────────▶ members                              network ─▶ peers ─▶ transport
//! service ◀── the wire (proto/) ◀── other members, clients
//! election (pure) ◀─▶ driver: pre-votes before Raft's own vote      standing: check-quorum
//! ```
//!
//! **Invariants:** an acknowledged write is on a majority of disks; an unknown outcome is called
//! unknown; a node answers only messages for its own group, node and disk; nothing here waits
//! without a bound and a deadline.

mod answer;
pub mod blobs;
mod bootstrap;
pub mod client;
pub mod config;
mod copies;
mod core;
mod driver;
pub mod election;
mod housekeeping;
pub mod inspect;
mod members;
pub mod messages;
pub mod metrics;
mod network;
mod node;
mod observer;
mod parts;
mod peers;
mod proposals;
pub mod quorum;
mod reads;
mod requests;
mod runtime;
mod service;
mod silence;
mod standing;
mod start;
pub mod store;
pub mod timekeeper;
pub mod transport;
pub mod types;
pub mod wire;
mod writing;

pub use answer::{NotCommitted, Overload, Read, ReadError, ReadLevel, Redirect, Written};
pub use config::{Bootstrap, NodeConfig};
pub use copies::CopyError;
pub use members::{Change, Changed, NotChanged};
pub use metrics::Metrics;
pub use node::{Node, NodeStatus};
pub use observer::{Nobody, Observer};
pub use runtime::seed;
pub use start::StartError;
pub use transport::{BoxedIo, Incoming, Io, TcpTransport, Transport};
