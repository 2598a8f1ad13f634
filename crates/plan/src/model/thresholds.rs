//! What must hold: comparisons and thresholds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    #[allow(clippy::needless_pass_by_value, reason = "numbers and times, which are copied")]
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
        }
    }
}

/// What must hold over the run, or over every sliding window of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    pub metric: String,
    pub select: Selector,
    pub hold: Hold,
    /// The condition as the user wrote it.
    pub text: String,
    /// Stop the run as soon as it is broken, once `after` has passed.
    pub abort: bool,
    pub after: Duration,
    /// `None`: everything since the start.
    pub over: Option<Duration>,
    /// Stages that do not count.
    pub exclude: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    pub step: Option<String>,
    pub workflow: Option<String>,
    pub stage: Option<String>,
    pub tags: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub aggregation: Aggregation,
    pub op: Comparison,
    /// Milliseconds for times, 0..=1 for `rate` of a rate metric, per second for `rate` of a
    /// counter.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Aggregation {
    Percentile(f64),
    Avg,
    Min,
    Med,
    Max,
    Rate,
    Count,
    Value,
}

/// Tags that every request has without being given them; a plan's own have other names.
pub const RESERVED_TAGS: [&str; 14] = [
    "check",
    "error",
    "error_code",
    "expected_response",
    "group",
    "method",
    "name",
    "proto",
    "scenario",
    "stage",
    "status",
    "step",
    "url",
    "workflow",
];
