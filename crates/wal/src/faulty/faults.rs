//! What can be made to go wrong, and what is noted about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A class of disk fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A read answers EIO.
    ReadError,
    /// A write answers EIO; a part of it may have been made.
    WriteError,
    /// A write takes only some of the bytes and says so.
    ShortWrite,
    /// The disk is full.
    NoSpace,
    /// A flush answers EIO, and what it should have flushed is lost: readable until the crash,
    /// never durable.
    SyncError,
    /// A flush answers `Ok` and does nothing.
    SyncLie,
    /// A read answers with the bytes of another place of the same file.
    MisdirectedRead,
    /// A bit of the durable content was turned over.
    BitFlip,
    /// A flush was slow.
    SlowFlush,
    /// A crash lost a write or a name that was not durable.
    LostWrite,
    /// A crash kept a part of a write.
    TornWrite,
    /// The power failed in the middle of a sequence of calls.
    PowerFailure,
}

/// Probabilities of faults, in parts per million of the calls concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub read_error: u32,
    pub write_error: u32,
    pub short_write: u32,
    pub sync_error: u32,
    pub sync_lie: u32,
    pub misdirected_read: u32,
}

/// One fault by script: it hits a call of its class on a path that contains `path`, after `skip`
/// such calls were spared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    pub fault: Fault,
    pub path: String,
    pub skip: u64,
}

/// How many faults of each class have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts(pub BTreeMap<Fault, u64>);

impl FaultCounts {
    /// How often this one has happened.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, fault: Fault) {
        *self.0.entry(fault).or_default() += 1;
    }
}

/// What a crash does with what is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// Nothing of it is kept.
    LoseAll,
    /// All of it is kept, as if the disk had been quick.
    KeepAll,
    /// Each write is kept, lost, or torn at a byte or at sectors of 512 bytes, by the disk's
    /// generator.
    Random,
    /// Of the pending writes and then of the pending names, those are kept whose bit is set (the
    /// first is bit 0). What has no bit is lost.
    Chosen(u64),
    /// As `Chosen`, but of the last pending write of the last file only this many bytes are kept.
    Torn { kept: u64, bytes: usize },
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Create,
    Open,
    List,
    CreateFolder,
    Rename,
    Remove,
    SyncFolder,
    FreeBytes,
    Lock,
    Read,
    Write,
    Sync,
    SetLen,
    Len,
    Allocate,
}

impl Operation {
    /// Whether the call can change what is on the disk. The fuse counts these.
    pub(super) fn changes(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::CreateFolder
                | Self::Rename
                | Self::Remove
                | Self::SyncFolder
                | Self::Write
                | Self::Sync
                | Self::SetLen
                | Self::Allocate
        )
    }
}

/// A call that was made, for tests of order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub operation: Operation,
    pub path: PathBuf,
    pub offset: u64,
    pub len: u64,
    pub ok: bool,
}
