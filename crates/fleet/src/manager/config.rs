//! What a manager is started with. Every setting but the folder, the certificates and the key has a default that works.

use std::net::SocketAddr;
use std::time::Duration;

use control::fleet::{owner, queue};

#[derive(Clone)]
pub struct ManagerConfig {
    /// Where it listens, whom it looks for, its data folder, its certificate.
    pub member: node::Config,
    /// Where the ledger listens; by default the port after that of the node.
    pub ledger: Option<SocketAddr>,
    /// The ledger addresses of all founding managers, this one included. Empty: it is alone.
    pub founders: Vec<String>,
    /// It has no group yet and waits until a member of one admits it.
    pub join: bool,
    pub settings: owner::Settings,
    pub turns: queue::Turns,
    /// How long an owner that membership takes for dead must have been silent in the ledger. 2 s.
    pub silent: Duration,
    pub state_limits: control::ledger::Limits,
}

impl ManagerConfig {
    #[must_use]
    pub fn new(member: node::Config) -> Self {
        Self {
            member,
            ledger: None,
            founders: Vec::new(),
            join: false,
            settings: owner::Settings::default(),
            turns: queue::Turns::default(),
            silent: Duration::from_secs(2),
            state_limits: control::ledger::Limits::default(),
        }
    }

    /// The ledger's address: given, or the next port.
    pub(super) fn ledger_address(&self) -> SocketAddr {
        let bind = self.member.advertise.unwrap_or(self.member.bind);
        self.ledger.unwrap_or_else(|| crate::local::ledger_of(bind))
    }
}
