//! What a worker counts, and what it says of itself in a heartbeat.

/// Every one only rises. Refusals by the fence are counted by the command_fence, in
/// [`super::Worker::fence_counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    pub refused_no_cores: u64,
    pub refused_unknown_hold: u64,
    pub refused_unknown_attempt: u64,
    pub refused_old_context: u64,
    pub refused_draining: u64,
    pub refused_disk_full: u64,
    pub refused_too_many: u64,
    pub refused_cannot_run: u64,

    pub holds_expired: u64,
    pub holds_superseded: u64,
    pub attempts_let_in: u64,
    /// By the status of their reports.
    pub attempts_completed: u64,
    pub attempts_failed: u64,
    pub attempts_stopped: u64,
    pub attempts_interrupted: u64,
    /// Leases that ran out; each ended an attempt.
    pub lapses: u64,
    /// Attempts whose renewal was refused: revoked, or of a job that has ended.
    pub renewals_refused: u64,
    /// A higher attempt of the same shard came to this worker.
    pub superseded: u64,
    pub prepare_timeouts: u64,
    pub start_timeouts: u64,
    /// Attempts that ran longer than they may.
    pub overruns: u64,
    pub forced: u64,
    pub kills: u64,
    /// Threads that did not end; their cores are not given to others.
    pub abandoned: u64,
    pub fetch_failures: u64,

    pub renewals_sent: u64,
    /// Not answered, or without a decision; the next manager was asked.
    pub renewals_failed: u64,
    pub tells_sent: u64,
    /// Of these, the same as before.
    pub tells_again: u64,
    pub tells_failed: u64,
    pub reports_forgotten: u64,
    /// Reports of earlier lives, made from issued files.
    pub reports_recovered: u64,
    /// Reports let go because nobody knew their job.
    pub reports_unclaimed: u64,
    /// Reports that had to leave their totals behind, for want of room.
    pub totals_dropped: u64,
    pub store_failures: u64,
    /// Blocks of rows that came again.
    pub rows_repeated: u64,
    pub steers_repeated: u64,
    /// Events about attempts that are not here (any more).
    pub events_unknown: u64,
}

/// For membership's heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub accepting: bool,
    /// Why it does not, unless it drains.
    pub disk_full: bool,
    pub cores: u32,
    pub cores_free: u32,
    /// Attempts that are here and have not ended.
    pub shards: u32,
    /// Only rises while work goes forward: milliseconds for which threads of load have answered,
    /// and attempts ended.
    pub work_done: u64,
    /// How much could be worked on now: attempts that run.
    pub runnable: u32,
}
