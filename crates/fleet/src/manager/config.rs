//! What a manager is started with. Every setting but the folder, the certificates and the key has a default that works.

use std::path::PathBuf;
use std::time::Duration;

use control::fleet::{owner, queue};
use membership::discovery::Seed;

use crate::local::ledger_of;

#[derive(Clone)]
pub struct ManagerConfig {
    /// Where it listens, whom it looks for, its data folder, its certificate.
    pub member: node::Config,
    /// How the other managers reach it, as their lists have it; by default the address that the node tells others. A
    /// name stays one, so that the manager may move.
    pub reached_at: Option<Seed>,
    /// The ledger addresses of all founding managers, this one included. Empty: it is alone.
    pub founders: Vec<String>,
    /// It has no group yet and waits until a member of one admits it.
    pub join: bool,
    pub settings: owner::Settings,
    pub turns: queue::Turns,
    /// How long an owner that membership takes for dead must have been silent in the ledger. 2 s.
    pub silent: Duration,
    /// When a worker that does not answer gets nothing new, and for how long.
    pub breaker: control::breaker::Settings,
    pub state_limits: control::ledger::Limits,
    /// The folder of the CA. With it this manager makes workers of those who show a join token; see `docs/security.md`.
    pub ca: Option<PathBuf>,
    /// How long the certificates of those last, at most as long as the CA. 90.
    pub worker_days: u32,
    /// How many may join here within a minute. 60.
    pub enlisted_per_minute: usize,
}

impl ManagerConfig {
    #[must_use]
    pub fn new(member: node::Config) -> Self {
        Self {
            member,
            reached_at: None,
            founders: Vec::new(),
            join: false,
            settings: owner::Settings::default(),
            turns: queue::Turns::default(),
            silent: Duration::from_secs(2),
            breaker: control::breaker::Settings::default(),
            state_limits: control::ledger::Limits::default(),
            ca: None,
            worker_days: 90,
            enlisted_per_minute: 60,
        }
    }

    /// How other managers reach its ledger.
    pub(super) fn ledger_address(&self) -> String {
        let told = Seed::from(self.member.advertise.unwrap_or(self.member.bind));
        ledger_of(self.reached_at.as_ref().unwrap_or(&told)).to_string()
    }

    /// Where its ledger listens.
    pub(super) fn ledger_listens(&self) -> String {
        ledger_of(&self.member.bind.into()).to_string()
    }
}
