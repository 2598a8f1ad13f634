//! States on the wire: how the program's own become those of the contract, and the words that
//! people and `--json` are shown for them.

use control::owner::ShardState;
use ledger_state::{AttemptStatus, Outcome};
use membership::State;
use trust::Role;

use super::proto;

/// `JOB_STATE_RUNNING` is shown as `running`.
macro_rules! words {
    ($($name:ident $prefix:literal, nothing known: $nothing:literal;)*) => {
        $(impl proto::$name {
            /// The word for people.
            #[must_use]
            pub fn word(self) -> String {
                match self {
                    Self::Unspecified => $nothing.to_owned(),
                    known => {
                        let name = known.as_str_name();
                        let word = name.strip_prefix($prefix).unwrap_or(name);
                        word.to_lowercase().replace('_', " ")
                    }
                }
            }
        })*
    };
}

words! {
    JobState "JOB_STATE_", nothing known: "unknown";
    WorkflowState "WORKFLOW_STATE_", nothing known: "unknown";
    ShardState "SHARD_STATE_", nothing known: "unknown";
    AttemptStatus "ATTEMPT_STATUS_", nothing known: "unknown";
    NodeState "NODE_STATE_", nothing known: "unknown";
    NodeRole "NODE_ROLE_", nothing known: "unknown";
    Routing "ROUTING_", nothing known: "";
}

impl proto::Outcome {
    /// In capitals, as everywhere; empty: the job has not ended.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Unspecified => String::new(),
            known => known.as_str_name().trim_start_matches("OUTCOME_").to_owned(),
        }
    }
}

impl From<Outcome> for proto::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Partial => Self::Partial,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Timeout => Self::Timeout,
        }
    }
}

impl From<AttemptStatus> for proto::AttemptStatus {
    fn from(status: AttemptStatus) -> Self {
        match status {
            AttemptStatus::Completed => Self::Completed,
            AttemptStatus::Failed => Self::Failed,
            AttemptStatus::Stopped => Self::Stopped,
            AttemptStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl From<ShardState> for proto::ShardState {
    fn from(state: ShardState) -> Self {
        match state {
            ShardState::Pending => Self::Pending,
            ShardState::Dispatched => Self::Dispatched,
            ShardState::Running => Self::Running,
            ShardState::Completed => Self::Completed,
            ShardState::Failed => Self::Failed,
            ShardState::FailedTerminal => Self::FailedForGood,
            ShardState::Cancelling => Self::Cancelling,
            ShardState::Cancelled => Self::Cancelled,
            ShardState::Skipped => Self::Skipped,
        }
    }
}

impl From<stats::WorkflowState> for proto::WorkflowState {
    fn from(state: stats::WorkflowState) -> Self {
        match state {
            stats::WorkflowState::Waiting => Self::Waiting,
            stats::WorkflowState::Running => Self::Running,
            stats::WorkflowState::Completed => Self::Completed,
            stats::WorkflowState::Failed => Self::Failed,
            stats::WorkflowState::Skipped => Self::Skipped,
            stats::WorkflowState::Stopped => Self::Stopped,
        }
    }
}

impl From<State> for proto::NodeState {
    fn from(state: State) -> Self {
        match state {
            State::Unconfirmed => Self::HeardOf,
            State::Confirmed => Self::Alive,
            State::Suspect => Self::Suspect,
            State::Dead => Self::Dead,
            State::Left => Self::Left,
        }
    }
}

impl From<Role> for proto::NodeRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Gate => Self::Gate,
            Role::Manager => Self::Manager,
            Role::Worker => Self::Worker,
            // A recruit is nobody's member, so nobody has it in a list.
            Role::Client | Role::Recruit => Self::Client,
        }
    }
}

impl From<control::routing::Routing> for proto::Routing {
    fn from(routing: control::routing::Routing) -> Self {
        match routing {
            control::routing::Routing::Route => Self::Route,
            control::routing::Routing::Investigate => Self::Investigate,
            control::routing::Routing::Drain => Self::Drain,
            control::routing::Routing::Evict => Self::Evict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::proto::{JobState, NodeState, Outcome, Routing, ShardState};

    #[test]
    fn states_have_words_and_what_is_not_known_says_so() {
        assert_eq!(JobState::Cancelling.word(), "cancelling");
        assert_eq!(ShardState::FailedForGood.word(), "failed for good");
        assert_eq!(NodeState::HeardOf.word(), "heard of");
        assert_eq!(NodeState::Unspecified.word(), "unknown");
        assert_eq!(Routing::Unspecified.word(), "");
        assert_eq!(Outcome::Timeout.word(), "TIMEOUT");
        assert_eq!(Outcome::Unspecified.word(), "");
    }
}
