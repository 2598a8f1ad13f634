//! What a run counts, and how counts from many cores become one result.
//!
//! ```text
//! core recorder ──swap every window──▶ Window ──merge──▶ Totals ──▶ thresholds, snapshots, RunResult
//!   (lock-free, one owner)              (a delta)          (the sum)
//! ```
//!
//! A [`Window`] is a delta that one core counted between two swaps; [`Window::merge`] is
//! associative and commutative, so that totals do not depend on the order of arrival. Percentiles
//! come from merged histograms only: nothing here averages an average or takes a percentile of
//! percentiles.
//!
//! **Invariant:** memory depends on the plan (steps × stages × capped tags), never on the length of
//! the run.

pub mod aggregate;
mod delta;
mod error_kind;
pub mod feed;
#[cfg(test)]
mod fixture;
pub mod history;
mod last_words;
mod layout;
pub mod merge;
mod progress;
mod result;
mod sample;
mod samples;
mod script_result;
pub mod series;
mod snapshot;
pub mod stream;
pub mod threshold;
pub mod time;
pub mod totals;
mod trend;
pub mod verdict;
mod window;
pub mod wire;

pub use delta::{Counters, Delta};
pub use error_kind::ErrorKind;
pub use history::History;
pub use last_words::{Added, Addendum, AttemptKey, Corrected, LastWords, Unheard};
pub use layout::{
    CheckLayout, Layout, MetricLayout, StageLayout, StepLayout, WorkflowFacts, WorkflowLayout,
};
pub use progress::{Progress, ProgressSink};
pub use result::*;
pub use sample::*;
pub use script_result::{ScriptFailure, ScriptResult, threshold_results};
pub use snapshot::*;
pub use trend::{RELATIVE_ERROR, SparseTrend, Trend};
pub use window::{
    Block, CheckCount, CustomValue, DropCause, StatusCounts, StepStats, TAG_SETS_MAX, TagStats,
    Window,
};
