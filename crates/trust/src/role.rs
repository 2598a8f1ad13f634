//! The four roles, and who may open a connection to whom.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a process is in the cluster. A certificate carries exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Client,
    Gate,
    Manager,
    Worker,
}

/// A word that is none of the four roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleError {
    pub found: String,
}

impl fmt::Display for RoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a role; roles are client, gate, manager, worker", self.found)
    }
}

impl std::error::Error for RoleError {}

impl Role {
    pub const ALL: [Self; 4] = [Self::Client, Self::Gate, Self::Manager, Self::Worker];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gate => "gate",
            Self::Manager => "manager",
            Self::Worker => "worker",
        }
    }

    /// Whether `self` may open a connection to `target`.
    ///
    /// Clients submit to gates. Only where there are no gates may they reach a manager: otherwise a client could go
    /// around the tier that routes, limits and owns its job.
    #[must_use]
    pub fn may_open(self, target: Self, gates_exist: bool) -> bool {
        use Role::{Client, Gate, Manager, Worker};
        match (self, target) {
            (Client, Gate)
            | (Gate, Client | Gate | Manager)
            | (Manager, Client | Gate | Manager | Worker)
            | (Worker, Manager) => true,
            (Client, Manager) => !gates_exist,
            (Client, Client | Worker) | (Gate, Worker) | (Worker, Client | Gate | Worker) => false,
        }
    }

    /// Managers and workers of one datacenter form one cluster; a pair of them never spans two.
    #[must_use]
    pub fn is_bound_to_datacenter(self) -> bool {
        matches!(self, Self::Manager | Self::Worker)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| RoleError { found: text.chars().take(32).collect() })
    }
}
