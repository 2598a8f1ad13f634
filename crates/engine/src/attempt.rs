//! One attempt of one shard, for whoever leads a job from elsewhere: what a worker runs (R2).
//!
//! ```text
//! packed ──▶ Loaded, once per job ──▶ ShardRun: prepare ─ Ready ─ start_at ─ Counted ... ─ Ended
//!            program, addresses         │  a thread with its own recorder, permit and issued counts
//!                                       └─ HookRun: setup and teardown, once
//! ```
//!
//! The conductor of a local run leads the same cores with the same commands; here each core has one
//! shard, so that its windows are exactly the shard's own.
//!
//! **Invariant:** an attempt ends with one `Ended` report, whatever becomes of it, and its permit
//! is withdrawn by then or shuts by itself. A thread that does not come to its end is abandoned,
//! and cannot send.

mod engine;
mod hook_run;
mod loaded;
mod packed;
mod reports;
mod shard_run;
mod sums;
mod thread;

pub use engine::{Engine, HookControl, ShardControl, Threads};
pub use hook_run::{HookRun, HookSpec, HookWiring};
pub use loaded::{
    LoadError, LoadOptions, Loaded, Provided, UniqueSet, Values, layout_of, layout_of_script,
};
pub(crate) use loaded::{base, by_name};
pub use packed::{Content, PackedPlan, PackedScript};
pub use permit::{IssuedCounts, IssuedFile, PermitState, SendControl, SendPermit};
pub use reports::{Counted, Ended, Ending, Report, Reporter};
pub use shard_run::{ShardRun, ShardSpec, Wiring};
pub use sums::{collect_provided, load_end};

pub use crate::core::Hook;
pub use crate::recorder::Message;
pub use crate::script::{HookError, ScriptEnd};
pub use crate::shard::{Join, ShardEnd, Stop};
