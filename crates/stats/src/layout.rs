//! The names behind the indexes: fixed before a run, shared by every recorder and reader of it.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use plan::MetricKind;

/// Steps, checks and stages are numbered across the whole plan; each workflow owns a range of each.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Layout {
    pub workflows: Vec<WorkflowLayout>,
    pub steps: Vec<StepLayout>,
    pub checks: Vec<CheckLayout>,
    pub stages: Vec<StageLayout>,
    pub metrics: Vec<MetricLayout>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowLayout {
    pub name: String,
    pub steps: Range<usize>,
    pub checks: Range<usize>,
    pub stages: Range<usize>,
    /// The plan's own setup and teardown stand in a workflow of their own, which a user did not
    /// write.
    pub synthetic: bool,
    pub about: WorkflowFacts,
}

/// What the plan says of a workflow, as far as it explains a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowFacts {
    /// The pauses of one iteration, at the shortest.
    pub pauses: Duration,
    /// How long its load lasts, where that is planned as a time.
    pub lasts: Option<Duration>,
    /// Cookies outlive an iteration.
    pub keeps_cookies: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepLayout {
    pub name: String,
    pub workflow: usize,
    /// HTTP method, for outputs that carry it.
    pub method: String,
    /// The URL as written in the plan, references and all: the route, not one address of it.
    pub route: String,
    /// Tags whose values are fixed by the plan.
    pub tags: Vec<(String, String)>,
    /// Conditions under which it runs, its groups' included, as the plan writes them.
    pub when: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckLayout {
    pub name: String,
    pub step: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageLayout {
    pub name: String,
    pub workflow: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MetricLayout {
    pub name: String,
    #[serde(with = "crate::wire::kind")]
    pub kind: MetricKind,
    /// A trend of times (milliseconds).
    pub time: bool,
}

impl Layout {
    /// The workflow that owns a stage.
    pub fn workflow_of_stage(&self, stage: usize) -> &WorkflowLayout {
        &self.workflows[self.stages[stage].workflow]
    }
}
