//! What a manager's configuration says about how jobs are led.

use std::time::Duration;

/// What a manager's configuration says. The defaults work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub lease: fence::LeaseTerms,
    /// Attempts after the first one (R5); the ledger has the same limit.
    pub retries: u32,
    /// For how long a worker keeps cores that nothing was dispatched to.
    pub hold_for: Duration,
    /// The first wait before something is tried again; each later one is twice as long, up to
    /// `again_most`.
    pub again: Duration,
    pub again_most: Duration,
    pub ready_within: Duration,
    /// How long a lost shard may be without a core before it is given up.
    pub place_within: Duration,
    /// A layer that does not fit the fleet is divided when the fleet has had the same size for so
    /// long.
    pub split_after: Duration,
    /// From the moment all are ready to the common start.
    pub start_ahead: Duration,
    /// How long a worker may take to carry out a stop, beyond what the plan grants.
    pub stop_within: Duration,
    /// How long somebody who steers waits for workers that do not answer.
    pub steer_within: Duration,
    /// A new rate holds from so much later on, so that all shards hear of it before.
    pub rate_ahead: Duration,
    /// By how much workers' schedules may be apart.
    pub clocks_differ: Duration,
    /// How much later than planned an attempt may end.
    pub overdue: Duration,
    pub hook_at_most: Duration,
    /// How long a new owner waits for workers to say what they hold.
    pub sync_within: Duration,
    /// Orphans are looked for this often (GATE-107).
    pub scan_every: Duration,
    /// All values that a job's workflows may hand on.
    pub context_bytes: usize,
    /// The ledger's limits for what lies in it and beside it.
    pub inline_bytes: usize,
    pub result_bytes: usize,
    pub text_bytes: usize,
    pub commits_at_once: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            lease: fence::LeaseTerms::default(),
            retries: 3,
            hold_for: seconds(30),
            again: Duration::from_millis(300),
            again_most: seconds(5),
            ready_within: seconds(60),
            place_within: seconds(300),
            split_after: seconds(2),
            start_ahead: Duration::from_millis(50),
            stop_within: seconds(5),
            steer_within: seconds(3),
            rate_ahead: Duration::from_millis(250),
            clocks_differ: seconds(1),
            overdue: seconds(15),
            hook_at_most: seconds(600),
            sync_within: seconds(5),
            scan_every: seconds(30),
            context_bytes: 1 << 20,
            inline_bytes: 16 << 10,
            result_bytes: 4 << 20,
            text_bytes: 1_024,
            commits_at_once: 256,
        }
    }
}
