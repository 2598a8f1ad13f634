//! Opening a data folder: who is it, what does the log say, which snapshot is good, do the two fit
//! together.
//!
//! Nothing is overwritten before all of it was looked at and found to be usable. The one exception
//! is the identity, whose start number has to rise before anything else may happen in the new life.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::{BootId, GroupId, NodeId};
use ledger_state::Limits;
use wal::{Disk, Log, LogIdentity, Wal};

use super::applied::{Applied, Instant};
use super::identity::{self, Identity, IdentityError, IdentityFile};
use super::lane::Lane;
use super::live_log::{Hole, LiveLog};
use super::raft_log::{Chunk, Mark, Marks, RaftLog};
use super::record::{Record, RecordError};
use super::snapshot::{self, Found, SnapshotError, Snapshots};
use super::{Draw, Storage, StoreOptions, WalOwner, files, state_machine};
use crate::blobs::Blobs;
use crate::types::DiskId;

pub const LOCK: &str = "lock";
pub const WAL: &str = "wal";
pub const SNAPSHOTS: &str = "snapshots";
pub const BLOBS: &str = "blobs";
/// A mark in memory for every so many entries of a replay.
const MARK_EVERY: u64 = 64;

/// What was found when a folder was opened.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The folder was made just now.
    pub new_folder: bool,
    /// There was a log once and it is gone: the disk that it was on.
    pub lost_disk: Option<DiskId>,
    /// What the write-ahead log has found.
    pub wal: wal::Recovery,
    /// Entries in memory.
    pub entries: u64,
    /// The entry with which the snapshot ends that was taken.
    pub snapshot: Option<u64>,
    /// Snapshots that did not verify. They were moved aside; the log reaches back far enough.
    pub damaged_snapshots: Vec<PathBuf>,
}

/// Why a folder was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses the folder.
    InUse {
        folder: PathBuf,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
    Identity(IdentityError),
    /// The folder is another node's.
    OtherNode {
        folder: PathBuf,
        found: NodeId,
        asked: NodeId,
    },
    OtherGroup {
        known: GroupId,
        asked: GroupId,
    },
    /// A log without an identity beside it.
    NoIdentity {
        folder: PathBuf,
    },
    /// The write-ahead log refused; nothing that an operator could lose is wrong.
    Wal(wal::OpenError),
    /// Entries or votes that were acknowledged are gone or cannot be read.
    LogDamaged {
        folder: PathBuf,
        why: String,
    },
    /// A record verifies and cannot be understood.
    Record {
        lsn: u64,
        error: RecordError,
    },
    /// A snapshot of a newer program.
    Snapshot {
        path: PathBuf,
        error: SnapshotError,
    },
    /// No usable snapshot reaches up to where the log begins.
    StateLost {
        folder: PathBuf,
        hole: Hole,
        damaged: Vec<PathBuf>,
    },
}

const READMIT: &str = "`volley debug ledger reset DIR --reason TEXT` puts the log aside and gives \
                       the node a new disk id; start it, then `volley debug ledger members MEMBER \
                       readmit ADDRESS`, and the others bring it up to date";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { folder } => {
                write!(f, "{} is in use by another process; stop it first", folder.display())
            }
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Identity(error) => error.fmt(f),
            Self::OtherNode { folder, found, asked } => write!(
                f,
                "{} belongs to node {found}, not to {asked}: check the configured node id or the data folder",
                folder.display()
            ),
            Self::OtherGroup { known, asked } => write!(
                f,
                "this node belongs to group {known}, not to {asked}: use another data folder to join another group"
            ),
            Self::NoIdentity { folder } => write!(
                f,
                "{} holds a log and no identity file: put the identity file back, or move the folder aside and start \
                 with an empty one",
                folder.display()
            ),
            Self::Wal(error) => error.fmt(f),
            Self::LogDamaged { folder, why } => write!(
                f,
                "the log in {} cannot be trusted: {why}. Nothing was changed. {READMIT}",
                folder.display()
            ),
            Self::Record { lsn, error } => write!(f, "record {lsn} of the log: {error}"),
            Self::Snapshot { path, error } => write!(f, "{}: {error}", path.display()),
            Self::StateLost { folder, hole, damaged } => {
                let Hole { expected, found } = hole;
                write!(
                    f,
                    "{}: the state up to entry {expected} can be had, and the log begins with entry {found}",
                    folder.display()
                )?;
                for path in damaged {
                    write!(f, "; {} is damaged", path.display())?;
                }
                write!(f, ". Nothing was changed. {READMIT}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<IdentityError> for OpenError {
    fn from(error: IdentityError) -> Self {
        Self::Identity(error)
    }
}

impl OpenError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.into(), error }
    }

    /// Whether `Storage::reset` is the way out.
    pub fn wants_reset(&self) -> bool {
        matches!(self, Self::LogDamaged { .. } | Self::StateLost { .. })
    }

    fn wal(folder: &Path, error: wal::OpenError) -> Self {
        if error.is_damage() {
            Self::LogDamaged { folder: folder.join(WAL), why: error.to_string() }
        } else {
            Self::Wal(error)
        }
    }
}

fn draw_node(draw: &Draw) -> NodeId {
    NodeId(u128::from(draw()) << 64 | u128::from(draw()))
}

/// Whether there is anything of a write-ahead log in the folder. A lock file alone is nothing.
fn has_log(disk: &dyn Disk, folder: &Path) -> Result<bool, OpenError> {
    let folder = folder.join(WAL);
    let names = files::names(disk, &folder).map_err(|error| OpenError::io(&folder, error))?;
    Ok(names.iter().any(|name| name.starts_with("segment_") || name == "wal.mark"))
}

fn take_lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Send + Sync>, OpenError> {
    disk.lock(&folder.join(LOCK)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse { folder: folder.into() },
        _ => OpenError::io(&folder.join(LOCK), error),
    })
}

/// Finds out who the folder is, and begins a new life. Says what is new about it.
fn begin_life(
    disk: &dyn Disk,
    folder: &Path,
    options: &StoreOptions,
    recovered: &mut Recovered,
) -> Result<IdentityFile, OpenError> {
    let logged = has_log(disk, folder)?;
    let mut file = match IdentityFile::load(disk, folder)? {
        Some(file) => file,
        None if logged => return Err(OpenError::NoIdentity { folder: folder.into() }),
        None => {
            recovered.new_folder = true;
            let identity = Identity {
                node: options.node.unwrap_or_else(|| draw_node(&options.draw)),
                boot: BootId(0),
                disk: DiskId((options.draw)()),
                group: None,
                awaits_admission: false,
                had_log: false,
            };
            IdentityFile { identity, limits: None }
        }
    };
    let identity = &mut file.identity;
    if let Some(asked) = options.node
        && asked != identity.node
    {
        let found = identity.node;
        return Err(OpenError::OtherNode { folder: folder.into(), found, asked });
    }
    if identity.had_log && !logged {
        recovered.lost_disk = Some(identity.disk);
        identity.disk = DiskId((options.draw)());
        identity.awaits_admission = true;
        identity.had_log = false;
    }
    identity.boot = identity.boot.next();
    file.save(disk, folder)?;
    Ok(file)
}

/// Reads the whole log into memory.
fn replay(
    log: &Log,
    folder: &Path,
    recovery: &wal::Recovery,
) -> Result<(LiveLog, Marks), OpenError> {
    let mut live = LiveLog::default();
    let mut marks = Marks::default();
    for record in log.read(recovery.first_lsn..recovery.last_lsn + 1) {
        let record = record.map_err(|error| OpenError::LogDamaged {
            folder: folder.join(WAL),
            why: error.to_string(),
        })?;
        let lsn = record.lsn;
        let decoded = Record::from_wal(record.kind, &record.payload)
            .map_err(|error| OpenError::Record { lsn, error })?;
        if let Record::Entry(entry) = &decoded {
            marks.note(Mark { index: entry.position.index, lsn }, MARK_EVERY);
        }
        live.replay(decoded).map_err(|hole| OpenError::LogDamaged {
            folder: folder.join(WAL),
            why: format!("record {lsn}: {hole}"),
        })?;
    }
    Ok((live, marks))
}

/// The state to begin with: from the newest good snapshot, or empty.
fn restore(file: &IdentityFile, folder: &Path, found: &Found) -> Result<Instant, OpenError> {
    for unusable in &found.unusable {
        if matches!(unusable.why, SnapshotError::Version { .. }) {
            let (path, error) = (unusable.path.clone(), unusable.why.clone());
            return Err(OpenError::Snapshot { path, error });
        }
    }
    let group = file.identity.group;
    let Some((header, bytes)) = &found.newest else {
        return Ok(Instant::empty(group, file.limits.clone().unwrap_or_default()));
    };
    let path = folder.join(SNAPSHOTS).join(snapshot::file_name(header.index()));
    let (_, mut instant) =
        state_machine::open_snapshot(bytes).map_err(|error| OpenError::Snapshot { path, error })?;
    if let (Some(known), Some(asked)) = (group, instant.group)
        && known != asked
    {
        return Err(OpenError::OtherGroup { known, asked });
    }
    // A snapshot from before the group was known says nothing about it.
    if instant.group.is_none() && group.is_some() {
        let limits: Limits = file.limits.clone().unwrap_or_default();
        let Instant { last, members, .. } = instant;
        instant = Instant { last, members, ..Instant::empty(group, limits) };
    }
    Ok(instant)
}

impl Storage {
    /// Opens a data folder, or makes one. When this returns, the log was replayed and verified as a
    /// whole.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        options: StoreOptions,
        owner: WalOwner,
    ) -> Result<Self, OpenError> {
        let io = |error| OpenError::io(&folder, error);
        disk.create_folder(&folder).map_err(io)?;
        let hold = Arc::new(take_lock(disk.as_ref(), &folder)?);
        let mut recovered = Recovered::default();
        let mut file = begin_life(disk.as_ref(), &folder, &options, &mut recovered)?;

        let whose = LogIdentity { node: file.identity.node, log: file.identity.disk.0 };
        let (log, recovery) = Log::open(disk.clone(), folder.join(WAL), whose, options.wal.clone())
            .map_err(|error| OpenError::wal(&folder, error))?;
        let (mut live, marks) = replay(&log, &folder, &recovery)?;
        let snapshots = folder.join(SNAPSHOTS);
        let found =
            snapshot::find(disk.as_ref(), &snapshots, options.snapshot_bytes).map_err(io)?;
        let instant = restore(&file, &folder, &found)?;
        let damaged: Vec<PathBuf> = found.unusable.iter().map(|bad| bad.path.clone()).collect();
        live.settle(instant.last).map_err(|hole| OpenError::StateLost {
            folder: folder.clone(),
            hole,
            damaged: damaged.clone(),
        })?;
        // Everything fits. From here on the folder may be changed.
        snapshot::tidy(disk.as_ref(), &snapshots, &found.unusable).map_err(io)?;
        if !file.identity.had_log {
            file.identity.had_log = true;
            file.save(disk.as_ref(), &folder)?;
        }
        recovered.entries = live.entries();
        recovered.snapshot = instant.last.map(|last| last.index);
        recovered.damaged_snapshots = damaged;

        let StoreOptions { clock, wal: wal_options, blobs, snapshot_bytes, .. } = options;
        let lane = Lane::start(disk.clone(), owner, hold.clone()).map_err(io)?;
        let lane = Arc::new(lane);
        let blobs = Blobs::open(disk.as_ref(), folder.join(BLOBS), blobs, lane.clone());
        let blobs = blobs.map_err(io)?;
        drop(disk);
        let kept = found.older.into_iter().chain(instant.last).collect();
        let snapshots = Snapshots::new(snapshots, snapshot_bytes, lane.clone(), kept);
        let stamp: wal::Clock = Box::new(move || clock());
        let wal = match owner {
            WalOwner::Thread => Wal::start_thread(log, stamp),
            WalOwner::Task => Wal::start_task(log, stamp),
        };
        let chunk = Chunk {
            bytes: wal_options.queue_bytes / 4,
            records: (wal_options.queue_records / 4).max(1),
        };
        let log = RaftLog::new(wal, live, marks, recovery.last_lsn, chunk);
        recovered.wal = recovery;
        Ok(Self {
            identity: Mutex::new(file),
            recovered,
            log: Arc::new(log),
            snapshots: Arc::new(snapshots),
            applied: Arc::new(Applied::new(instant)),
            blobs,
            lane,
            folder,
            _hold: hold,
        })
    }
}

/// See `Storage::reset`.
pub fn reset(disk: &dyn Disk, folder: &Path, draw: &Draw, why: &str) -> Result<DiskId, OpenError> {
    let _hold = take_lock(disk, folder)?;
    let Some(mut file) = IdentityFile::load(disk, folder)? else {
        return Err(OpenError::io(&folder.join(identity::FILE), io::ErrorKind::NotFound.into()));
    };
    let io = |error| OpenError::io(folder, error);
    // The log goes first: a crash after it leaves a folder that has lost its log, which is noticed
    // at the next start. The number is that of the life in which it was given up, so no earlier one
    // is written over.
    let aside = folder.join(format!("aside-{}", file.identity.boot));
    let moved = files::move_all(disk, &folder.join(WAL), &aside).map_err(io)?;
    let moved = moved + files::move_all(disk, &folder.join(SNAPSHOTS), &aside).map_err(io)?;
    file.identity.disk = DiskId(draw());
    file.identity.awaits_admission = true;
    file.identity.had_log = false;
    file.identity.boot = file.identity.boot.next();
    file.save(disk, folder)?;
    tracing::warn!(folder = %folder.display(), files = moved, disk = %file.identity.disk, why, "log given up");
    Ok(file.identity.disk)
}
