//! The roles, and who may open a connection to whom.

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
    /// Whoever shows a join token: may ask a manager for a worker's certificate, and nothing else.
    /// Nobody's member.
    Recruit,
}

/// A word that is no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleError {
    pub found: String,
}

impl fmt::Display for RoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A recruit's certificate is inside a token; nobody asks for one by name.
        write!(f, "`{}` is not a role; roles are client, gate, manager, worker", self.found)
    }
}

impl std::error::Error for RoleError {}

impl Role {
    /// In the order in which they came: what counts by role keeps its places.
    pub const ALL: [Self; 5] =
        [Self::Client, Self::Gate, Self::Manager, Self::Worker, Self::Recruit];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gate => "gate",
            Self::Manager => "manager",
            Self::Worker => "worker",
            Self::Recruit => "recruit",
        }
    }

    /// Whether `self` may open a connection to `target`.
    ///
    /// Clients submit to gates. Only where there are no gates may they reach a manager: otherwise a
    /// client could go around the tier that routes, limits and owns its job. A recruit reaches
    /// managers, who make it a worker, and nobody has anything to ask of a recruit.
    #[must_use]
    pub fn may_open(self, target: Self, gates_exist: bool) -> bool {
        use Role::{Client, Gate, Manager, Recruit, Worker};
        match (self, target) {
            (Client, Gate)
            | (Gate, Client | Gate | Manager)
            | (Manager, Client | Gate | Manager | Worker)
            | (Worker | Recruit, Manager) => true,
            (Client, Manager) => !gates_exist,
            (Client, Client | Worker)
            | (Gate, Worker)
            | (Worker | Recruit, Client | Gate | Worker)
            | (_, Recruit) => false,
        }
    }

    /// Managers and workers of one datacenter form one cluster; a pair of them never spans two. A
    /// recruit is to be one.
    #[must_use]
    pub fn is_bound_to_datacenter(self) -> bool {
        matches!(self, Self::Manager | Self::Worker | Self::Recruit)
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
