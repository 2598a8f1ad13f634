//! What can go wrong, said so that the reader knows what happened, where, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a log was not opened. Except for `Io`, which may come late, nothing was changed by the
/// attempt.
#[derive(Debug)]
pub enum OpenError {
    /// The options contradict each other.
    Options(String),
    /// The disk refused a call.
    Io { path: PathBuf, doing: &'static str, error: io::Error },
    /// Another process has this log open.
    Locked { path: PathBuf },
    /// The file is not a file of this program.
    Foreign { path: PathBuf, why: String },
    /// The file was written by a later version of this program.
    Version { path: PathBuf, found: u16, supported: u16 },
    /// The file belongs to another node or another log.
    OtherLog { path: PathBuf, found: String, expected: String },
    /// A record that must be there and whole is not; LSN 0 if it is the head of the segment.
    Corruption { segment: u64, offset: u64, lsn: u64, why: String },
    /// Less was found than the disk had confirmed.
    AcknowledgedLost { acknowledged: u64, found: u64 },
    /// The second witness of the log's end is missing or unreadable, so a loss could not be
    /// noticed.
    Witness { path: PathBuf, why: String },
}

impl OpenError {
    pub(crate) fn io(path: &Path, doing: &'static str, error: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), doing, error }
    }

    /// Whether records that were acknowledged are gone or cannot be shown to be there. A member of
    /// a group must then not vote with this log until it was admitted again.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corruption { .. } | Self::AcknowledgedLost { .. } | Self::Witness { .. }
        )
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(why) => write!(f, "the options of the log do not fit together: {why}"),
            Self::Io { path, doing, error } => {
                write!(f, "{doing} {} failed: {error}", path.display())
            }
            Self::Locked { path } => {
                write!(f, "another process uses this log (lock {}); stop it first", path.display())
            }
            Self::Foreign { path, why } => write!(
                f,
                "{} is not a log file of Volley ({why}); nothing was changed, move it away or choose another folder",
                path.display()
            ),
            Self::Version { path, found, supported } => write!(
                f,
                "{} has format {found}, this program reads up to {supported}; nothing was changed, use a newer one",
                path.display()
            ),
            Self::OtherLog { path, found, expected } => write!(
                f,
                "{} belongs to {found}, expected {expected}; nothing was changed",
                path.display()
            ),
            Self::Corruption { segment, lsn: 0, why, .. } => write!(
                f,
                "the head of segment {segment} is damaged ({why}); nothing was changed, restore this node from peers"
            ),
            Self::Corruption { segment, offset, lsn, why } => write!(
                f,
                "record {lsn} is damaged (segment {segment}, offset {offset}: {why}) though it was confirmed as \
                 durable; nothing was changed, restore this node from its peers"
            ),
            Self::AcknowledgedLost { acknowledged, found } => write!(
                f,
                "record {acknowledged} was acknowledged but the log ends with {found}: the disk confirmed a flush that \
                 it did not make, or the file was damaged or replaced; nothing was changed, restore this node from \
                 peers"
            ),
            Self::Witness { path, why } => write!(
                f,
                "{}: {why}; without it a loss of acknowledged records cannot be noticed. Restore this node from its \
                 peers, or open once with `rebuild_witness` if you know that the log is complete",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// What became of an append that was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// No room in the queue in time. Not written, and it will not be.
    QueueFull,
    /// The log is closed or being closed. Not written.
    Shutdown,
    /// The record (or the batch) is larger than the log takes. Not written, no LSN was used.
    TooLarge { bytes: usize, limit: usize },
    /// Refused before anything was written, for want of disk space. It may be tried again later.
    NotWritten(String),
    /// The log has failed earlier and takes nothing more. This one was not written.
    Poisoned(String),
    /// The write or the flush failed: after a restart the record may be there or not.
    Indeterminate(String),
}

impl AppendError {
    /// Whether the record is certainly not in the log and will never be.
    #[must_use]
    pub fn not_written(&self) -> bool {
        !matches!(self, Self::Indeterminate(_))
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull => f.write_str("the log's queue is full: the record was not written"),
            Self::Shutdown => f.write_str("the log is closed: the record was not written"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "{bytes} bytes are more than the log takes at once ({limit})")
            }
            Self::NotWritten(why) => write!(f, "the record was not written: {why}"),
            Self::Poisoned(why) => {
                write!(
                    f,
                    "the record was not written: the log has failed and takes no more ({why})"
                )
            }
            Self::Indeterminate(why) => write!(
                f,
                "it is not known whether the record was written ({why}); the log takes no more until it is opened again"
            ),
        }
    }
}

impl std::error::Error for AppendError {}

/// Why reading stopped. Whether to go on elsewhere is the caller's decision; a reader never skips.
#[derive(Debug)]
pub enum ReadError {
    Io {
        path: PathBuf,
        doing: &'static str,
        error: io::Error,
    },
    /// A record does not verify.
    Corruption {
        segment: u64,
        offset: u64,
        lsn: u64,
        why: String,
    },
    /// A valid record stands where another was expected.
    SequenceGap {
        segment: u64,
        offset: u64,
        expected: u64,
        found: u64,
    },
    /// The records asked for were removed by `truncate_before`.
    Truncated {
        wanted: u64,
        first: u64,
    },
    /// The file is not a segment of this log.
    Foreign {
        path: PathBuf,
        why: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, doing, error } => {
                write!(f, "{doing} {} failed: {error}", path.display())
            }
            Self::Corruption { segment, offset, lsn, why } => {
                write!(f, "record {lsn} is damaged (segment {segment}, offset {offset}: {why})")
            }
            Self::SequenceGap { segment, offset, expected, found } => write!(
                f,
                "record {found} stands where {expected} was expected (segment {segment}, offset {offset})"
            ),
            Self::Truncated { wanted, first } => {
                write!(f, "record {wanted} was removed; the log begins with {first}")
            }
            Self::Foreign { path, why } => {
                write!(f, "{} is not a segment of this log: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
