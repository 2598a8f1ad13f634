//! What a job is told and what it asks for: plain data.

use stats::{Outcome, StopReason};

/// What happened, as the owner tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Started,
    SetupEnded(Result<(), String>),
    /// The workflow is prepared and its load begins.
    WorkflowReady {
        workflow: usize,
    },
    WorkflowEnded {
        workflow: usize,
        result: WorkflowEnd,
    },
    StopRequested {
        reason: StopReason,
    },
    /// The plan's `timeout` is over.
    DeadlineReached,
    TeardownEnded(Result<(), String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkflowEnd {
    Ok,
    Error(String),
    /// Because it was told to stop.
    Stopped,
}

/// What the owner has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    RunSetup,
    StartWorkflow {
        workflow: usize,
        cores: Vec<usize>,
    },
    /// For the timeline: this workflow will never start.
    SkipWorkflow {
        workflow: usize,
        because_of: String,
    },
    /// Ends what is running, setup included; each still reports its end.
    StopAll,
    RunTeardown,
    /// The last effect of a job.
    Finish {
        outcome: Outcome,
    },
}

/// An event that cannot happen in this phase. The job is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IllegalMove {
    pub from: &'static str,
    pub event: Event,
}

impl std::fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a job that is {} cannot take {:?}", self.from, self.event)
    }
}

impl std::error::Error for IllegalMove {}
