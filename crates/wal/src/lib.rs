//! The write-ahead log: what it has acknowledged is there after a crash, or it says that it is not.
//!
//! ```text
//! append ─▶ queue (bounded) ─▶ owner: encode, write, one flush for all ─▶ segment files
//!                                    └▶ witness: how far was it acknowledged     ▲
//! open: verify everything, cut a torn tail, refuse damage ───────────────────────┘
//! ```
//!
//! - `Disk` is everything done with files; `RealDisk` and `FaultyDisk` do it.
//! - `Log::open` recovers, `Wal` appends, `Reader` reads and follows, `verify` only looks.
//!
//! **Invariant:** an append is answered `Ok` in a durable form only after a flush of every file
//! that holds a part of it has succeeded, and no flush is tried again after one has failed.

mod active;
mod disk;
mod error;
pub mod faulty;
mod frame;
mod intake;
mod log;
mod mark;
mod metrics;
mod options;
mod owner;
mod reader;
mod real;
mod recover;
mod scan;
mod space;
mod wal;

pub use disk::{Disk, DiskFile};
pub use error::{AppendError, OpenError, ReadError};
pub use faulty::FaultyDisk;
pub use log::Log;
pub use metrics::{FSYNC_BUCKETS, Metrics};
pub use options::{Durability, LogIdentity, Lsn, Options, Record, Recovery, TornTail};
pub use owner::Clock;
pub use reader::{Follow, Reader, Records, identity_of, verify};
pub use real::{RealDisk, tighten};
pub use wal::{AppendOptions, Pending, Wal};
