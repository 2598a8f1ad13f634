//! A worker's times and limits, with defaults that work.

use std::fmt;
use std::time::Duration;

use fence::{BootId, Capacity, NodeId};

/// Who a worker is, what it has, and for how long and how much of everything it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub node: NodeId,
    pub boot: BootId,
    /// The processes of the lives from this one to before `boot` are certainly gone.
    pub since: BootId,
    /// Commands of another cluster are refused.
    pub cluster: u64,
    pub cores: u32,
    /// Attempts on one core, when shards of a lost worker share it (R14).
    pub share_max: u32,
    pub times: Times,
    pub limits: Limits,
}

impl Settings {
    #[must_use]
    pub fn new(node: NodeId, boot: BootId, cluster: u64, cores: u32) -> Self {
        let (times, limits) = (Times::default(), Limits::default());
        Self { node, boot, since: boot, cluster, cores, share_max: 4, times, limits }
    }

    /// # Errors
    /// If a worker with these settings could never run anything, or would promise more than it can
    /// keep.
    pub fn check(&self) -> Result<(), BadSettings> {
        let Limits { outbox_bytes, report_bytes, report_floor, .. } = self.limits;
        let wrong = |what: &'static str, why: String| Err(BadSettings { what, why });
        match () {
            () if self.cores == 0 => wrong("cores", "a worker needs at least one".into()),
            () if self.share_max == 0 => {
                wrong("share_max", "a core must hold at least one attempt".into())
            }
            () if report_floor > report_bytes => {
                wrong("report_floor", format!("is above report_bytes, {report_bytes}"))
            }
            () if u64::from(self.cores).saturating_mul(report_floor) > outbox_bytes => wrong(
                "outbox_bytes",
                format!("{} reports of {report_floor} bytes do not fit {outbox_bytes}", self.cores),
            ),
            () => Ok(()),
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSettings {
    pub what: &'static str,
    pub why: String,
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker.{}: {}", self.what, self.why)
    }
}

impl std::error::Error for BadSettings {}

/// Deadlines. None of them is a matter of safety: that is the lease's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// No hold lasts longer, whatever was asked for.
    pub hold_max: Duration,
    /// From the dispatch to `Prepared`, blobs included.
    pub prepare: Duration,
    /// Between two tries to fetch blobs.
    pub fetch_again: Duration,
    /// From `Prepared` to the start.
    pub start: Duration,
    /// What a graceful stop may take beyond the plan's own.
    pub graceful_extra: Duration,
    /// From a stop by force to the kill; also how long a caller waits to hear `Stopped`.
    pub forced: Duration,
    /// From the kill to giving the thread up.
    pub kill: Duration,
    /// Without an answer, something that was told has failed.
    pub tell_timeout: Duration,
    /// First and longest wait before it is told again.
    pub tell_again: Duration,
    pub tell_again_max: Duration,
    /// Wait before it is told again to an owner that has taken it.
    pub tell_taken: Duration,
    /// A report is let go when managers have known nothing of its job for so long.
    pub unknown_job: Duration,
    pub store_again: Duration,
    /// Renewals are at least this far apart, so that many dispatches at once make one of them.
    pub renew_gap: Duration,
    /// A job that has nothing here is forgotten after this; a late command of it is then refused.
    pub job_memory: Duration,
    /// The same when there is no room for another.
    pub job_memory_full: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Self {
            hold_max: s(60),
            prepare: s(60),
            fetch_again: ms(500),
            // Others may fail to prepare, and be tried elsewhere; this one waits for them.
            start: s(300),
            graceful_extra: s(2),
            forced: s(2),
            kill: s(3),
            tell_timeout: s(2),
            tell_again: ms(200),
            tell_again_max: s(5),
            tell_taken: s(15),
            unknown_job: s(600),
            store_again: s(1),
            renew_gap: ms(20),
            job_memory: s(6 * 3600),
            job_memory_full: s(600),
        }
    }
}

/// How much of everything there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All reports that are not yet durable elsewhere, together (R17a).
    pub outbox_bytes: u64,
    pub outbox_reports: usize,
    /// One report (R17a).
    pub report_bytes: u64,
    /// Kept free in the outbox for each attempt that is let in: room for everything but its totals.
    pub report_floor: u64,
    /// Row blocks in a dispatch, and unique data sets of an attempt.
    pub row_blocks: usize,
    /// Context inside a dispatch.
    pub context_bytes: u64,
    /// Any text that somebody else has written.
    pub text_bytes: usize,
    /// Callers that wait for one attempt's stop.
    pub waiters: usize,
    /// Tells under way to one manager.
    pub tells_in_flight: usize,
    /// What a job is steered to at a time.
    pub steered: usize,
    pub lease: Duration,
    pub jobs: Capacity,
    pub shards: Capacity,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            outbox_bytes: 256 << 20,
            outbox_reports: 16_384,
            report_bytes: 4 << 20,
            report_floor: 128 << 10,
            row_blocks: 256,
            context_bytes: 1 << 20,
            text_bytes: 1024,
            waiters: 8,
            tells_in_flight: 16,
            steered: 512,
            lease: Duration::from_secs(60),
            jobs: Capacity { keys: 16_384, tombstones: 65_536 },
            shards: Capacity { keys: 262_144, tombstones: 262_144 },
        }
    }
}
