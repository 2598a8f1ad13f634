//! What can be set about a log, and what comes out of opening one.

use std::time::Duration;

use fence::{Hlc, NodeId};

use crate::error::OpenError;
use crate::frame::{FRAME_BYTES, HEAD_BYTES};

/// The number of a record: dense, from 1, one higher with each.
pub type Lsn = u64;

/// How far an append goes before it counts as done. A log has one mode; a single append may ask for
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Kept in memory until something else has it written, or `flush_interval` is over. For what
    /// can be found again.
    None = 0,
    /// Given to the operating system: survives the process, not the computer.
    Flush = 1,
    /// Flushed to the disk for itself.
    Fsync = 2,
    /// Flushed to the disk together with what else was waiting.
    FsyncBatch = 3,
}

/// Whose log this is. A file of another is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    pub node: NodeId,
    pub log: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a segment file; taken from the disk when it is made.
    pub segment_bytes: u64,
    /// Largest payload of a record. A larger one is refused before it gets an LSN.
    pub max_record_bytes: u32,
    /// How many records may be waiting.
    pub queue_records: usize,
    /// How many bytes may be waiting.
    pub queue_bytes: usize,
    /// Latest time from the first record that is not flushed to the flush, when nobody waits for
    /// it.
    pub flush_interval: Duration,
    /// So many unflushed bytes are flushed at once, also when nobody waits for it.
    pub flush_bytes: usize,
    pub durability: Durability,
    /// Disk space held back for essential records when the disk is full; 0 for none.
    pub reserve_bytes: u64,
    /// With less free space than this only essential records are taken.
    pub low_water_bytes: u64,
    /// How often free space is looked at.
    pub space_check: Duration,
    /// How often the witness of the log's end is flushed at most.
    pub witness_interval: Duration,
    /// Accept that the witness is missing or unreadable, and make a new one from what the log
    /// holds. An operator's decision: a loss at the log's end goes unnoticed then.
    pub rebuild_witness: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            max_record_bytes: 8 << 20,
            queue_records: 10_000,
            queue_bytes: 32 << 20,
            flush_interval: Duration::from_millis(10),
            flush_bytes: 256 << 10,
            durability: Durability::FsyncBatch,
            reserve_bytes: 64 << 20,
            low_water_bytes: 128 << 20,
            space_check: Duration::from_secs(1),
            witness_interval: Duration::from_secs(1),
            rebuild_witness: false,
        }
    }
}

impl Options {
    /// Sizes for tests and simulations: segments of `segment_bytes`, everything else in proportion.
    #[must_use]
    pub fn small(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            max_record_bytes: (segment_bytes / 4) as u32,
            queue_bytes: segment_bytes as usize,
            flush_bytes: segment_bytes as usize / 4,
            reserve_bytes: 2 * segment_bytes,
            low_water_bytes: 2 * segment_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |why: String| Err(OpenError::Options(why));
        let record = FRAME_BYTES as u64 + u64::from(self.max_record_bytes);
        if self.segment_bytes > 1 << 31 {
            return refuse("segment_bytes is over 2 GiB".into());
        }
        if self.segment_bytes < HEAD_BYTES as u64 + record {
            return refuse(format!(
                "a segment of {} bytes cannot hold a record of max_record_bytes {}",
                self.segment_bytes, self.max_record_bytes
            ));
        }
        if (self.queue_bytes as u64) < record || self.queue_bytes > u32::MAX as usize {
            return refuse(format!("queue_bytes must be between {record} and 4 GiB"));
        }
        if self.queue_records == 0 || self.queue_records > 1 << 24 {
            return refuse("queue_records must be between 1 and 16,777,216".into());
        }
        if self.reserve_bytes != 0 && self.reserve_bytes < self.segment_bytes {
            return refuse("reserve_bytes must be 0 or hold at least one segment".into());
        }
        if self.flush_interval.is_zero() || self.space_check.is_zero() {
            return refuse("flush_interval and space_check must not be zero".into());
        }
        Ok(())
    }
}

/// A verified record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    pub hlc: Hlc,
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// A tail that a crash had left unfinished, and that was cut off. None of it had been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub segment: u64,
    pub offset: u64,
    /// From the cut to the last byte that was not zero.
    pub bytes: u64,
    /// Whole records behind the damage, dropped with it.
    pub records_dropped: u64,
    /// What was found at the cut.
    pub why: String,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { segment, offset, bytes, records_dropped, .. } = self;
        write!(
            f,
            "segment {segment} from offset {offset}, {bytes} bytes, {records_dropped} whole records among them"
        )
    }
}

/// What was found when the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    pub records: u64,
    /// The first record that is still there; one above `last_lsn` if there is none.
    pub first_lsn: Lsn,
    pub last_lsn: Lsn,
    pub max_hlc: Option<Hlc>,
    pub segments: u64,
    pub torn: Option<TornTail>,
    /// How often this log has been opened, this time included.
    pub incarnation: u64,
}
