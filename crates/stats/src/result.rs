//! A run's result: everything that a report, an exit code or a comparison needs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::history::History;
use crate::last_words::LastWords;
use crate::layout::Layout;
use crate::script_result::ScriptResult;
use crate::window::Window;

#[derive(Debug, Clone)]
pub struct RunResult {
    pub plan: String,
    /// Wall-clock time of the start, for people and file formats only.
    pub started_unix_ms: u64,
    pub elapsed: Duration,
    pub outcome: Outcome,
    pub verdict: Verdict,
    pub stop: StopReason,
    pub layout: Arc<Layout>,
    pub totals: Window,
    pub issued: Issued,
    /// Of a fleet: whose last word was missing, and what came since.
    pub last_words: LastWords,
    pub workflows: Vec<WorkflowResult>,
    pub thresholds: Vec<ThresholdResult>,
    pub error_samples: Vec<ErrorSample>,
    pub timeline: Vec<TimelineEntry>,
    pub generator: GeneratorStats,
    /// The run over time, halved in resolution whenever it would outgrow its limit.
    pub history: History,
    /// Remarks that are not verdicts: tags folded, samples dropped, files that could not be
    /// written.
    pub notes: Vec<String>,
    /// Of a script's run only.
    pub script: Option<Box<ScriptResult>>,
    /// From which verdict on it counts as failed. Whoever looks at a result chooses; it is no part
    /// of what is stored.
    pub fail_on: VerdictState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    Completed,
    Partial,
    Failed,
    Cancelled,
    Timeout,
}

/// Why the run ended when it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// All workflows came to their own end.
    Finished,
    /// A threshold with `abort`, by its number.
    Threshold(usize),
    Interrupted,
    /// By `volley ctl stop`.
    Cancelled,
    Timeout,
    /// By the script itself.
    Aborted(String),
}

/// How many requests were begun, counted before each is written: completed <= seen by the target <=
/// issued (R27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Issued {
    Exact(u64),
    /// A worker has not said its last word; it cannot have begun more than this.
    Bound(u64),
    /// A worker has not said its last word, and nothing bounds what it may have begun.
    Unknown,
}

impl Issued {
    #[must_use]
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Exact(count) | Self::Bound(count) => Some(count),
            Self::Unknown => None,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::Bound(_) => "bound",
            Self::Unknown => "unknown",
        }
    }
}

/// The result's word on itself (R19).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: VerdictState,
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictState {
    Valid,
    Degraded,
    Invalid,
}

impl VerdictState {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Degraded => "degraded",
            Self::Invalid => "invalid",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowResult {
    pub name: String,
    pub status: WorkflowStatus,
    /// Since the run began; both zero if it never did.
    pub started: Duration,
    pub ended: Duration,
    pub cores: usize,
    pub vus_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkflowStatus {
    Completed,
    Failed {
        error: String,
    },
    /// A workflow it depends on failed.
    Skipped {
        because_of: String,
    },
    /// Cut short by the end of the run.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    pub metric: String,
    /// `http_req_duration{step:cart}`: the metric with its selector.
    pub label: String,
    pub hold: String,
    /// As measured; for a sliding window, the worst window. `None`: nothing was measured.
    pub value: Option<f64>,
    pub ok: bool,
    pub unit: Unit,
    pub abort: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    Milliseconds,
    /// 0..=1, shown as per cent.
    Fraction,
    PerSecond,
    Count,
    Plain,
}

/// How the message of a redirect begins that was followed and is no error; the path comes after it.
pub const LANDED: &str = "redirected to ";

/// How the message about the first failed check of a step begins; its name and what was found come
/// after it.
pub const CHECKED: &str = "check failed: ";

/// How the message about the first value begins that a metric could not take.
pub const UNRECORDED: &str = "no number: ";

/// Whether a message is no error: something that was seen beside them.
#[must_use]
pub fn is_remark(message: &str) -> bool {
    [LANDED, CHECKED, UNRECORDED].iter().any(|begins| message.starts_with(begins))
}

/// One message of each kind of error per step, with how often that kind occurred there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorSample {
    pub kind: ErrorKind,
    pub step: usize,
    pub count: u64,
    /// When it was told, to a second.
    pub at: Duration,
    pub message: String,
    /// Request and head of the response, secrets removed; present for answers that came.
    pub exchange: Option<String>,
    /// Some more of the same kind and step, some time apart.
    pub later: Vec<FailureSample>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureSample {
    pub at: Duration,
    pub message: String,
    pub exchange: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineEntry {
    pub at: Duration,
    pub event: String,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct HistoryPoint {
    pub at_s: f64,
    /// Length of the interval.
    pub over_s: f64,
    pub requests: u64,
    pub failed: u64,
    pub vus: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

/// How the generator itself fared.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GeneratorStats {
    pub cores: usize,
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    pub memory_max_bytes: u64,
    pub descriptors_max: u64,
    pub descriptors_limit: u64,
    /// How late the cores' event loops woke up, sampled throughout.
    pub loop_lag_p99_ms: f64,
    pub loop_lag_max_ms: f64,
    /// Highest share of one core's time that was in use, over any second.
    pub busiest_core: f64,
}
