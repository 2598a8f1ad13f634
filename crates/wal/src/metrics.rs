//! What a log counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of the flush time: the n-th counts flushes of less than 2^n microseconds, the last all
/// longer ones.
pub const FSYNC_BUCKETS: usize = 26;

/// The counters of a log at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Records written.
    pub writes: u64,
    /// Times that the queue was taken and written.
    pub batches: u64,
    /// Bytes written, frames included.
    pub bytes: u64,
    pub fsyncs: u64,
    pub fsync_micros: [u64; FSYNC_BUCKETS],
    /// Records and bytes accepted and not yet done with.
    pub queue_records: u64,
    pub queue_bytes: u64,
    pub durable_lsn: u64,
    pub torn_cuts: u64,
    pub poisoned: bool,
    /// Appends refused because the queue was full.
    pub queue_full: u64,
    /// Appends refused because disk space is low.
    pub no_space: u64,
    pub low_space: bool,
    pub segments: u64,
    pub truncated_segments: u64,
}

impl Metrics {
    /// Records per batch; 0 before the first.
    #[must_use]
    pub fn average_batch(&self) -> u64 {
        self.writes.checked_div(self.batches).unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub writes: AtomicU64,
    pub batches: AtomicU64,
    pub bytes: AtomicU64,
    pub fsyncs: AtomicU64,
    pub fsync_micros: [AtomicU64; FSYNC_BUCKETS],
    pub torn_cuts: AtomicU64,
    pub queue_full: AtomicU64,
    pub no_space: AtomicU64,
    pub low_space: AtomicBool,
    pub segments: AtomicU64,
    pub truncated_segments: AtomicU64,
}

impl Meters {
    pub fn flushed(&self, took: Duration) {
        self.fsyncs.fetch_add(1, Relaxed);
        let micros = took.as_micros().min(u128::from(u64::MAX)) as u64;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.fsync_micros[bucket.min(FSYNC_BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    pub fn read(&self) -> Metrics {
        let mut fsync_micros = [0; FSYNC_BUCKETS];
        for (to, from) in fsync_micros.iter_mut().zip(&self.fsync_micros) {
            *to = from.load(Relaxed);
        }
        Metrics {
            writes: self.writes.load(Relaxed),
            batches: self.batches.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            fsync_micros,
            torn_cuts: self.torn_cuts.load(Relaxed),
            queue_full: self.queue_full.load(Relaxed),
            no_space: self.no_space.load(Relaxed),
            low_space: self.low_space.load(Relaxed),
            segments: self.segments.load(Relaxed),
            truncated_segments: self.truncated_segments.load(Relaxed),
            ..Metrics::default()
        }
    }
}
