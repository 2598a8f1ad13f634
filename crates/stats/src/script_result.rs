//! What a script's run leaves beyond a plan's: k6's metrics and thresholds, and how its own code
//! ended.

use std::sync::Arc;

use crate::series::{SeriesLayout, SeriesWindow, ThresholdOutcome};

#[derive(Debug, Clone)]
pub struct ScriptResult {
    pub layout: Arc<SeriesLayout>,
    pub totals: SeriesWindow,
    /// Evaluated at the end.
    pub thresholds: Vec<ThresholdOutcome>,
    /// Failed checks and requests fail the run, though no threshold speaks of them.
    pub strict: bool,
    /// What `setup()` returned, as JSON.
    pub setup_data: Option<String>,
    /// The first thing that ended the test before its time.
    pub failure: Option<ScriptFailure>,
    /// What `exec.test.fail()` was told.
    pub marked_failed: Option<String>,
}

/// How a script ended its own test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptFailure {
    SetupTimeout,
    TeardownTimeout,
    /// In `setup()` or `teardown()`.
    Exception,
    /// `exec.test.abort()`.
    Abort,
}
