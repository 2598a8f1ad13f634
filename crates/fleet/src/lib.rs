//! Jobs on many machines: the shells of managers, workers and clients of one datacenter.
//!
//! ```text
//! client ── bundle, submit, watch ──▶ manager ── reserve, dispatch, start ──▶ worker ── engine::attempt
//!                                       │  ▲                                    │
//!                        ledger (Raft) ◀┘  └──── ready, frames, end report ◀────┘
//! ```
//!
//! The machines that decide are pure and live in `control` (one owner per job, one worker per
//! machine); merging is in `stats`. Here are sockets, files, clocks and tasks around them.
//!
//! **Invariant:** nothing here decides. What a machine wants is done in its order, and what came of
//! it is told to it.

pub mod bundle;
pub mod client;
pub mod local;
mod machine;
pub mod manager;
mod verdict;
pub mod wire;
pub mod worker;

/// A folder for this user alone: plans lie in it as they were submitted, with the values of their
/// environment.
fn private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The same for a file, which is made anew.
fn private_file(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
