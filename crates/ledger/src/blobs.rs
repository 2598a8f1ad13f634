//! Large things beside the log, named by what they contain: plans, scripts, data files, results.
//!
//! An entry of the log names a blob by its SHA-256, and is proposed only when a majority has the
//! blob on disk (R17a). So a blob comes before its entry, and for a while nothing in the state
//! machine speaks of it: collection leaves it alone for a grace period, and counts that only up to
//! an instant at which the state was known to be current.
//!
//! A blob is verified whenever it is read. A damaged one is reported as damaged, never returned,
//! and can be put again.

mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ledger_state::BlobRef;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use wal::Disk;

use crate::store::files;
use crate::store::lane::{Lane, lock};

pub use parts::{BlobReader, BlobWriter};

/// How large blobs may be, one by one and together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobLimits {
    /// One blob.
    pub blob_bytes: u64,
    /// All blobs of this node.
    pub total_bytes: u64,
    /// How long a blob that nothing refers to is kept. Must be longer than any proposal may take.
    pub grace: Duration,
}

impl Default for BlobLimits {
    fn default() -> Self {
        Self { blob_bytes: 256 << 20, total_bytes: 16 << 30, grace: Duration::from_secs(900) }
    }
}

/// A result may have this many bytes (R17a); plans may have more.
pub const RESULT_BYTES: u64 = 4 << 20;

/// Why a blob was not stored or not returned.
#[derive(Debug)]
pub enum BlobError {
    /// Not stored: larger than allowed.
    TooLarge {
        bytes: u64,
        limit: u64,
    },
    /// Not stored: the node keeps as much as it may.
    Full {
        bytes: u64,
        used: u64,
        limit: u64,
    },
    /// Not stored: the bytes are not the ones that were announced.
    Mismatch {
        wanted: BlobRef,
        found: BlobRef,
    },
    /// This node does not have it; another one may.
    Missing(BlobRef),
    /// The file is not what was put. Fetch it from another member and put it again.
    Damaged {
        blob: BlobRef,
        why: String,
    },
    Io {
        doing: &'static str,
        error: io::Error,
    },
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "the blob has {bytes} bytes, at most {limit} are allowed")
            }
            Self::Full { bytes, used, limit } => write!(
                f,
                "no room for a blob of {bytes} bytes: {used} of {limit} are in use; wait until finished jobs are \
                 forgotten, or raise `total_bytes`"
            ),
            Self::Mismatch { wanted, found } => {
                write!(f, "the bytes are blob {}, not {}", name(found), name(wanted))
            }
            Self::Missing(blob) => write!(f, "blob {} is not on this node", name(blob)),
            Self::Damaged { blob, why } => write!(
                f,
                "blob {} is damaged on this node ({why}); fetch it from another member",
                name(blob)
            ),
            Self::Io { doing, error } => write!(f, "{doing} a blob failed: {error}"),
        }
    }
}

impl std::error::Error for BlobError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The reference of these bytes.
#[must_use]
pub fn reference(bytes: &[u8]) -> BlobRef {
    BlobRef { hash: Sha256::digest(bytes).into(), bytes: bytes.len() as u64 }
}

/// The file name of a blob: hash and length, so that a listing tells how much there is.
#[must_use]
pub fn name(blob: &BlobRef) -> String {
    use fmt::Write;
    let mut name = String::with_capacity(80);
    for byte in blob.hash {
        let _ = write!(name, "{byte:02x}");
    }
    let _ = write!(name, ".{}", blob.bytes);
    name
}

fn parse(name: &str) -> Option<BlobRef> {
    let (digits, bytes) = name.split_once('.')?;
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    let blob = BlobRef { hash, bytes: bytes.parse().ok()? };
    // One blob has one name.
    (self::name(&blob) == name).then_some(blob)
}

fn folder_of(root: &Path, blob: &BlobRef) -> PathBuf {
    root.join(format!("{:02x}", blob.hash[0]))
}

/// Every blob in a folder, by listing. Reads no content.
pub fn list(disk: &dyn Disk, root: &Path) -> io::Result<Vec<BlobRef>> {
    let mut found = Vec::new();
    for first in 0..=u8::MAX {
        let names = files::names(disk, &root.join(format!("{first:02x}")))?;
        found.extend(
            names.iter().filter_map(|name| parse(name)).filter(|blob| blob.hash[0] == first),
        );
    }
    Ok(found)
}

/// One blob, verified.
pub fn load(disk: &dyn Disk, root: &Path, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
    let path = folder_of(root, blob).join(name(blob));
    let damaged = |why: String| BlobError::Damaged { blob: *blob, why };
    match files::read_all(disk, &path, blob.bytes) {
        Ok(bytes) if bytes.len() as u64 != blob.bytes => {
            Err(damaged(format!("it has {} of {} bytes", bytes.len(), blob.bytes)))
        }
        Ok(bytes) if reference(&bytes) != *blob => Err(damaged("the hash does not fit".into())),
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BlobError::Missing(*blob)),
        Err(error) => Err(damaged(error.to_string())),
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    /// When it was last put, asked for, or seen in use.
    since: Instant,
    /// Whether its name is known to survive a power failure.
    durable: bool,
}

#[derive(Default)]
struct Index {
    blobs: BTreeMap<BlobRef, Kept>,
    /// Those that are being written, and by how many.
    putting: BTreeMap<BlobRef, u32>,
    /// Bytes of both.
    used: u64,
}

impl Index {
    fn begin(&mut self, blob: BlobRef) {
        self.used += blob.bytes;
        *self.putting.entry(blob).or_default() += 1;
    }

    fn end(&mut self, blob: BlobRef, written: bool) {
        if let Some(count) = self.putting.get_mut(&blob) {
            *count -= 1;
            if *count == 0 {
                self.putting.remove(&blob);
            }
        }
        let kept = Kept { since: Instant::now(), durable: true };
        // What was there before was counted before.
        if !written || self.blobs.insert(blob, kept).is_some() {
            self.used -= blob.bytes;
        }
    }

    fn wants(&self, blob: &BlobRef) -> bool {
        self.blobs.contains_key(blob) || self.putting.contains_key(blob)
    }
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub blobs: u64,
    pub bytes: u64,
}

/// The blobs of one node. Clones are the same.
#[derive(Clone)]
pub struct Blobs {
    root: PathBuf,
    limits: BlobLimits,
    lane: Arc<Lane>,
    index: Arc<Mutex<Index>>,
}

impl Blobs {
    pub(crate) fn open(
        disk: &dyn Disk,
        root: PathBuf,
        limits: BlobLimits,
        lane: Arc<Lane>,
    ) -> io::Result<Self> {
        disk.create_folder(&root)?;
        remove_unfinished(disk, &root)?;
        let since = Instant::now();
        let mut index = Index::default();
        for blob in list(disk, &root)? {
            index.blobs.insert(blob, Kept { since, durable: false });
            index.used += blob.bytes;
        }
        Ok(Self { root, limits, lane, index: Arc::new(Mutex::new(index)) })
    }

    /// Stores bytes. When this returns they survive a power failure of this node.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<BlobRef, BlobError> {
        let blob = reference(&bytes);
        self.check_size(&blob)?;
        if self.lookup(&blob).is_some_and(|kept| kept.durable) && self.get(&blob).await.is_ok() {
            return Ok(blob);
        }
        self.make_room(&blob)?;
        let root = self.root.clone();
        let written = self.lane.run(move |disk| write(disk, &root, &blob, &bytes)).await;
        lock(&self.index).end(blob, written.is_ok());
        written.map(|()| blob).map_err(|error| BlobError::Io { doing: "storing", error })
    }

    /// Stores bytes that were announced as `wanted`, for example by another member.
    pub async fn put_as(&self, wanted: &BlobRef, bytes: Vec<u8>) -> Result<(), BlobError> {
        self.check_size(wanted)?;
        let found = reference(&bytes);
        if found != *wanted {
            return Err(BlobError::Mismatch { wanted: *wanted, found });
        }
        self.put(bytes).await.map(|_| ())
    }

    fn check_size(&self, blob: &BlobRef) -> Result<(), BlobError> {
        let limit = self.limits.blob_bytes;
        if blob.bytes > limit {
            return Err(BlobError::TooLarge { bytes: blob.bytes, limit });
        }
        Ok(())
    }

    fn make_room(&self, blob: &BlobRef) -> Result<(), BlobError> {
        let mut index = lock(&self.index);
        let known = index.blobs.contains_key(blob);
        let (bytes, used, limit) = (blob.bytes, index.used, self.limits.total_bytes);
        // A damaged one that is replaced needs no more room than it has.
        if !known && used.saturating_add(bytes) > limit {
            return Err(BlobError::Full { bytes, used, limit });
        }
        index.begin(*blob);
        Ok(())
    }

    fn lookup(&self, blob: &BlobRef) -> Option<Kept> {
        let mut index = lock(&self.index);
        let kept = index.blobs.get_mut(blob)?;
        kept.since = Instant::now();
        Some(*kept)
    }

    /// The content, verified.
    pub async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        if self.lookup(blob).is_none() {
            return Err(BlobError::Missing(*blob));
        }
        let (root, blob) = (self.root.clone(), *blob);
        let loaded = self.lane.run(move |disk| Ok(load(disk, &root, &blob))).await;
        loaded.map_err(|error| BlobError::Io { doing: "reading", error })?
    }

    /// Whether there is such a blob, by name; its content is only known to be good when it was
    /// read.
    #[must_use]
    pub fn has(&self, blob: &BlobRef) -> bool {
        lock(&self.index).blobs.contains_key(blob)
    }

    /// The same; and it is not collected soon, because whoever asks is about to refer to it.
    #[must_use]
    pub fn touch(&self, blob: &BlobRef) -> bool {
        self.lookup(blob).is_some()
    }

    /// Number of blobs, and their bytes.
    #[must_use]
    pub fn usage(&self) -> (u64, u64) {
        let index = lock(&self.index);
        (index.blobs.len() as u64, index.used)
    }

    /// For so long nobody could write to the ledger: whoever has put a blob could not yet name it,
    /// and the time does not count towards its grace period.
    pub fn not_counted(&self, gap: Duration) {
        let now = Instant::now();
        let mut index = lock(&self.index);
        for kept in index.blobs.values_mut() {
            kept.since = (kept.since + gap).min(now);
        }
    }

    /// Removes blobs that nothing refers to.
    ///
    /// `in_use` is what the state machine named at `current`, an instant at which that state was
    /// known to be up to date (a linearizable read began then). A member that has fallen behind
    /// cannot give such an instant, and so cannot throw away a blob whose entry it has not seen
    /// yet.
    pub async fn collect(
        &self,
        in_use: &BTreeSet<BlobRef>,
        current: Instant,
    ) -> Result<Collected, BlobError> {
        let mut unused = Vec::new();
        {
            let mut index = lock(&self.index);
            for (blob, kept) in &mut index.blobs {
                if in_use.contains(blob) {
                    kept.since = kept.since.max(current);
                } else if kept.since + self.limits.grace <= current {
                    unused.push(*blob);
                }
            }
            for blob in &unused {
                index.blobs.remove(blob);
                index.used -= blob.bytes;
            }
        }
        let collected = Collected {
            blobs: unused.len() as u64,
            bytes: unused.iter().map(|blob| blob.bytes).sum(),
        };
        let (root, index) = (self.root.clone(), self.index.clone());
        let removed = self.lane.run(move |disk| remove(disk, &root, &unused, &index)).await;
        removed.map_err(|error| BlobError::Io { doing: "removing", error })?;
        Ok(collected)
    }
}

fn write(disk: &dyn Disk, root: &Path, blob: &BlobRef, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(root, blob);
    disk.create_folder(&folder)?;
    files::replace(disk, &folder, &name(blob), bytes)
}

/// Clears away what a crash has left half written.
fn remove_unfinished(disk: &dyn Disk, root: &Path) -> io::Result<()> {
    for first in 0..=u8::MAX {
        let folder = root.join(format!("{first:02x}"));
        for name in files::names(disk, &folder)? {
            if name.ends_with(files::UNFINISHED) {
                disk.remove(&folder.join(name))?;
            }
        }
    }
    Ok(())
}

/// Removes files, except of blobs that were put again meanwhile. Names that come back after a power
/// failure are found at the next start, so nothing need be durable here.
fn remove(disk: &dyn Disk, root: &Path, blobs: &[BlobRef], index: &Mutex<Index>) -> io::Result<()> {
    for blob in blobs {
        if !lock(index).wants(blob) {
            files::remove_if_there(disk, &folder_of(root, blob).join(name(blob)))?;
        }
    }
    Ok(())
}
