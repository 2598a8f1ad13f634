//! What a script's run leaves beyond a plan's: k6's metrics and thresholds, and how its own code
//! ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::result::{ThresholdResult, Unit};
use crate::series::{Contains, MetricKind, SeriesLayout, SeriesWindow, ThresholdOutcome};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptFailure {
    SetupTimeout,
    TeardownTimeout,
    /// In `setup()` or `teardown()`.
    Exception,
    /// `exec.test.abort()`.
    Abort,
}

/// A script's thresholds in the form of a plan's, for everything that reads results.
pub fn threshold_results(
    layout: &SeriesLayout,
    outcomes: &[ThresholdOutcome],
) -> Vec<ThresholdResult> {
    let one = |outcome: &ThresholdOutcome| {
        let metric = layout.get(outcome.target.metric);
        let unit = match (metric.kind, metric.contains) {
            (MetricKind::Rate, _) => Unit::Fraction,
            (MetricKind::Trend, Contains::Time) => Unit::Milliseconds,
            (MetricKind::Counter, _) if outcome.text.trim_start().starts_with("rate") => {
                Unit::PerSecond
            }
            (MetricKind::Counter, _) => Unit::Count,
            _ => Unit::Plain,
        };
        ThresholdResult {
            metric: metric.name.clone(),
            label: outcome.key.clone(),
            hold: outcome.text.clone(),
            value: outcome.value,
            ok: outcome.ok,
            unit,
            abort: outcome.abort,
        }
    };
    outcomes.iter().map(one).collect()
}
