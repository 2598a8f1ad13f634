//! What a manager is started with. Every setting but the folder, the certificates and the key has a
//! default that works.

use std::path::PathBuf;
use std::time::Duration;

use control::{owner, queue};
use membership::discovery::Seed;

use crate::local::ledger_of;

/// How long an ended job is known, with its result, its timeline and its logs: people look at it
/// days later.
pub const KEEP_JOBS: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Clients may still ask again what became of a submission.
pub const KEEP_JOBS_MIN: Duration = Duration::from_secs(600);

/// Limits of a ledger that keeps ended jobs for so long, and not shorter than clients need.
#[must_use]
pub fn keeping(jobs: Duration) -> ledger_state::Limits {
    let kept_ms = super::millis(jobs.max(KEEP_JOBS_MIN));
    ledger_state::Limits { kept_ms, ..ledger_state::Limits::default() }
}

/// Limits that somebody has given by name. They count when the group is founded; a difference is
/// said.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedLimits {
    pub lease: Option<Duration>,
    pub keep_jobs: Option<Duration>,
}

#[derive(Clone)]
pub struct ManagerConfig {
    /// Where it listens, whom it looks for, its data folder, its certificate.
    pub member: node::Config,
    /// How the other managers reach it, as their lists have it; by default the address that the
    /// node tells others. A name stays one, so that the manager may move.
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
    /// What the ledger may hold, and for how long: see [`KEEP_JOBS`]. Counts when the group is
    /// founded.
    pub state_limits: ledger_state::Limits,
    pub asked: AskedLimits,
    /// How large plans and results may be, and how long those are kept that no job has.
    pub blobs: ledger::blobs::BlobLimits,
    /// The folder of the CA. With it this manager makes workers of those who show a join token; see
    /// `docs/security.md`.
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
            state_limits: keeping(KEEP_JOBS),
            asked: AskedLimits::default(),
            blobs: ledger::blobs::BlobLimits::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a night's test is there in the morning.
    #[test]
    fn ended_jobs_are_kept_for_days_and_never_too_short() {
        let days = Duration::from_millis(keeping(KEEP_JOBS).kept_ms);
        assert_eq!(days, Duration::from_secs(604_800));
        for jobs in [KEEP_JOBS, KEEP_JOBS_MIN, Duration::ZERO] {
            let limits = keeping(jobs);
            assert_eq!(limits.check(), Ok(()), "{jobs:?}");
            assert!(limits.kept_ms >= limits.committed_ttl_ms, "{jobs:?}");
        }
        assert_eq!(keeping(Duration::ZERO), keeping(KEEP_JOBS_MIN));
    }
}
