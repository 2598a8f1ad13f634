//! The live view's food: what is known about a run at one moment. Late or missed snapshots harm
//! nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::result::{HistoryPoint, ThresholdResult};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pub plan: String,
    pub elapsed: Duration,
    /// Planned end of the run, if the plan has one.
    pub planned: Option<Duration>,
    pub state: RunState,
    pub workflows: Vec<WorkflowSnapshot>,
    pub steps: Vec<StepSnapshot>,
    pub total: TotalSnapshot,
    /// (kind, count), most frequent first.
    pub errors: Vec<(String, u64)>,
    pub thresholds: Vec<ThresholdResult>,
    /// What the verdict would complain of if the run ended now.
    pub warnings: Vec<String>,
    /// The last two minutes, one point per second, oldest first.
    pub history: Vec<HistoryPoint>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunState {
    #[default]
    Preparing,
    Running,
    Paused,
    /// No new iterations; running ones may finish.
    Stopping,
    Done,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowSnapshot {
    pub name: String,
    pub state: WorkflowState,
    /// 0..=1 of its own schedule.
    pub progress: f64,
    /// `ramping-vus, up to 50 VUs`
    pub load: String,
    pub stage: String,
    pub vus: u64,
    pub iterations: u64,
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkflowState {
    Waiting,
    Running,
    Completed,
    Failed,
    Skipped,
    Stopped,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepSnapshot {
    pub workflow: String,
    pub name: String,
    pub requests: u64,
    pub failed: u64,
    /// Over the last window.
    pub rate: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TotalSnapshot {
    pub requests: u64,
    pub failed: u64,
    /// Requests that have begun and not ended. Only where the run takes place: it does not travel.
    #[serde(skip)]
    pub under_way: u64,
    /// Over the last window.
    pub rate: f64,
    pub rate_mean: f64,
    pub vus: u64,
    pub iterations: u64,
    pub dropped: u64,
    pub checks_passed: u64,
    pub checks_failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}
