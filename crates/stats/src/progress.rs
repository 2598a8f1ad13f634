//! What a run that goes on would leave if it ended now, for those who look at it in full.
//!
//! A [`Snapshot`](crate::Snapshot) is small and made every second; this is large, and made only
//! when somebody wants it.

use std::time::Duration;

use crate::result::RunResult;
use crate::snapshot::RunState;

#[derive(Debug, Clone)]
pub struct Progress {
    pub state: RunState,
    /// Planned end of the run, if the plan has one.
    pub planned: Option<Duration>,
    /// Outcome and stop reason are not decided; everything that is counted is as of now.
    pub result: RunResult,
}

/// Whoever shows a run in full. Both calls are made by the run itself, and neither may wait.
pub trait ProgressSink: Send + Sync {
    /// Whether the next one would be looked at.
    fn is_wanted(&self) -> bool;

    fn take(&self, progress: Progress);
}
