//! The ledger: its real state machine behind a model of the group that replicates it.
//!
//! What is committed is applied once, in one order. The model decides when that is possible (a
//! leader that reaches a majority), how long it takes, and whether the proposer learns of it.

use std::collections::BTreeMap;
use std::time::Duration;

use fence::GroupId;
use ledger_state::{Command, Limits, Proposal, Reply, State, check_step};

pub const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };

pub struct Book {
    pub state: State,
    pub index: u64,
    pub leader: Option<usize>,
    /// Nothing is committed before this.
    pub stalled_until: Duration,
    /// The next election is decided then.
    pub election: Option<Duration>,
    /// Of a hundred answers, so many are lost.
    pub unknown: u8,
    pub commits: u64,
    pub elections: u64,
    /// Between two managers nothing gets through before then: a packet was lost, and is sent again.
    pub held_up: BTreeMap<(usize, usize), Duration>,
}

impl Book {
    pub fn new() -> Self {
        // A week, as managers are founded with: nothing is forgotten while it is looked at.
        let limits = Limits { kept_ms: 7 * 24 * 3_600_000, ..Limits::default() };
        Self {
            state: State::new(GROUP, limits),
            index: 0,
            leader: None,
            stalled_until: Duration::ZERO,
            election: None,
            unknown: 0,
            commits: 0,
            elections: 0,
            held_up: BTreeMap::new(),
        }
    }

    /// Applies it, at this time by the leader's clock. Every state and every step is checked.
    ///
    /// # Errors
    /// Which rule of the ledger is broken.
    pub fn apply(&mut self, proposal: &Proposal, time_ms: u64) -> Result<Reply, String> {
        let advance = matches!(proposal.command, Command::Advance { .. });
        let before = (!advance).then(|| self.state.clone());
        self.index += 1;
        self.commits += 1;
        self.state.pass(self.index, time_ms);
        let reply = self.state.apply(self.index, std::slice::from_ref(proposal)).remove(0);
        if let Some(before) = before {
            self.state.check().map_err(|violation| violation.to_string())?;
            check_step(&before, &self.state).map_err(|violation| violation.to_string())?;
        }
        Ok(reply)
    }
}
