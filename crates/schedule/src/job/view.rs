//! What can be seen of a job from outside.

use std::time::Duration;

use stats::{Outcome, StopReason, WorkflowState, WorkflowStatus};

use super::{Job, Phase, Progress};

impl Job {
    /// `None` until the load is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    pub fn stop_reason(&self) -> StopReason {
        self.stop.clone().unwrap_or(StopReason::Finished)
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    pub fn setup_error(&self) -> Option<&str> {
        self.setup_error.as_deref()
    }

    pub fn teardown_error(&self) -> Option<&str> {
        self.teardown_error.as_deref()
    }

    pub fn name(&self, workflow: usize) -> &str {
        &self.shape.names[workflow]
    }

    /// Which cores each workflow will run on.
    pub fn seats(&self) -> impl Iterator<Item = (usize, &[usize])> {
        let seats = self.shape.layers.iter().flatten().flatten();
        seats.map(|(workflow, cores)| (*workflow, cores.as_slice()))
    }

    /// How a workflow ended; `None` while it waits or runs.
    pub fn status(&self, workflow: usize) -> Option<&WorkflowStatus> {
        match &self.progress[workflow] {
            Progress::Ended { status, .. } => Some(status),
            _ => None,
        }
    }

    /// When a workflow was started and when it ended; both zero if it never began.
    pub fn span(&self, workflow: usize, now: Duration) -> (Duration, Duration) {
        match &self.progress[workflow] {
            Progress::Waiting => (Duration::ZERO, Duration::ZERO),
            Progress::Starting { since } | Progress::Running { since } => (*since, now),
            Progress::Ended { started, ended, .. } => (*started, *ended),
        }
    }

    pub fn state(&self, workflow: usize) -> WorkflowState {
        match &self.progress[workflow] {
            Progress::Waiting | Progress::Starting { .. } => WorkflowState::Waiting,
            Progress::Running { .. } => WorkflowState::Running,
            Progress::Ended { status, .. } => match status {
                WorkflowStatus::Completed => WorkflowState::Completed,
                WorkflowStatus::Failed { .. } => WorkflowState::Failed,
                WorkflowStatus::Skipped { .. } => WorkflowState::Skipped,
                WorkflowStatus::Stopped => WorkflowState::Stopped,
            },
        }
    }
}
