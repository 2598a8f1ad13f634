//! Runs a script: its scenarios are the workflows of a plan without steps, its virtual users are
//! JavaScript runtimes, everything else is as for plans.

mod assemble;
pub mod hints;
mod hook;
mod instance;
mod prepare;
mod summary;
mod user;

use std::sync::Arc;
use std::time::Duration;

use plan::Plan;
use script::log::Logger;
use script::options::Stripes;
use script::program::Script;
use stats::ScriptFailure;
use stats::series::{SeriesLayout, SeriesSink};

pub use assemble::{AssembleError, RunOverrides};
pub use hook::HookError;
pub use hook::SETUP_DATA;
pub(crate) use hook::run_aside;
pub use instance::Instance;
pub use prepare::{Entry, How, PrepareError, Prepared, Wanted, memory_for_users, prepare};
pub(crate) use prepare::{assemble, open};
pub use summary::handle_summary;
pub use user::ScriptEnd;
pub(crate) use user::{CoreSide, ScriptUser};

/// What the end of a run means that a script has caused, by its reason.
pub fn abort_failure(reason: &str) -> ScriptFailure {
    match script::lacking::is_reason(reason) {
        true => ScriptFailure::Exception,
        false => ScriptFailure::Abort,
    }
}

/// How the reason begins for which a scenario ends before it has begun; what was thrown follows.
pub const INIT_FAILED: &str = "the init code of a virtual user failed";

/// A script that is ready to run.
pub struct ScriptRun {
    pub script: Arc<Script>,
    /// One workflow for each scenario, in their order.
    pub plan: Plan,
    pub scenarios: Vec<ScenarioRun>,
    /// Metrics and thresholds.
    pub layout: Arc<SeriesLayout>,
    pub has_setup: bool,
    pub has_teardown: bool,
    pub setup_timeout: Duration,
    pub teardown_timeout: Duration,
    /// Requests a second on this machine, if they are limited.
    pub rps: Option<u64>,
    /// Silence is not success (R20).
    pub strict: bool,
    /// Which part of the whole test is run here; `None`: all of it.
    pub stripes: Option<Stripes>,
    pub logger: Logger,
    pub sink: Option<SeriesSink>,
}

/// What a scenario has beyond its load.
#[derive(Debug, Clone, Default)]
pub struct ScenarioRun {
    /// As k6 writes it: `constant-vus`.
    pub executor: String,
    /// Name of the exported function.
    pub exec: String,
    pub env: Vec<(String, String)>,
    pub tags: Vec<(String, String)>,
    /// Virtual users that are made before the run begins.
    pub vus_before: u32,
    /// The most there can be.
    pub vus_max: u32,
}

impl ScriptRun {
    /// Virtual users are numbered over all scenarios; this is where a scenario's numbers begin.
    pub fn first_vu(&self, workflow: usize) -> u64 {
        self.scenarios[..workflow].iter().map(|scenario| u64::from(scenario.vus_max)).sum()
    }
}
