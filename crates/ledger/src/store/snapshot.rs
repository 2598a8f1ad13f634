//! Snapshots: the state machine at one instant, as one file that is replaced as a whole.
//!
//! A file says what it holds (magic, version, place in the log, membership, group), how long it is
//! and its checksum. The same bytes travel to a member that is far behind, and are verified there
//! before they replace anything.
//!
//! The newest two are kept, and the log reaches back to the older one, so that one damaged file
//! costs nothing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fence::GroupId;
use serde::{Deserialize, Serialize};
use wal::Disk;

use super::files;
use super::lane::{Lane, lock};
use super::record::{MembersAt, Position};

const MAGIC: [u8; 8] = *b"VLLYSNAP";
const VERSION: u8 = 1;
const PREFIX: usize = MAGIC.len() + 1 + 4;
const SUM: usize = 4;
/// A header holds the membership; a group of some hundred members stays far below.
const HEADER_LIMIT: usize = 1 << 20;
/// Put before the name of a file that did not verify.
const ASIDE: &str = "damaged_";
const KEPT: usize = 2;

/// What a snapshot says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub group: Option<GroupId>,
    /// Every entry up to this one is in it, and none after.
    pub last: Option<Position>,
    pub members: MembersAt,
    pub id: String,
    /// Length of the state that follows.
    pub body: u64,
}

impl Header {
    pub fn index(&self) -> u64 {
        self.last.map_or(0, |last| last.index)
    }
}

/// Why a snapshot was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    Foreign,
    Version {
        found: u8,
    },
    Damaged {
        what: String,
    },
    /// It verifies, but says something else than it was announced as.
    Mismatch {
        what: String,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "this is not a snapshot"),
            Self::Version { found } => write!(
                f,
                "the snapshot has format version {found}, this program reads up to {VERSION}: start the newer program"
            ),
            Self::Damaged { what } => write!(f, "the snapshot is damaged: {what}"),
            Self::Mismatch { what } => write!(f, "the snapshot is not the one announced: {what}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// The bytes of a snapshot file.
pub fn encode(header: &Header, body: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let fields = postcard::to_stdvec(header)
        .map_err(|error| SnapshotError::Damaged { what: error.to_string() })?;
    let mut bytes = Vec::with_capacity(PREFIX + fields.len() + body.len() + SUM);
    bytes.extend_from_slice(&MAGIC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    Ok(bytes)
}

/// The header and the state of a snapshot file, verified.
pub fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), SnapshotError> {
    let damaged = |what: &str| SnapshotError::Damaged { what: what.into() };
    let Some(rest) = bytes.strip_prefix(&MAGIC) else { return Err(SnapshotError::Foreign) };
    match rest.first() {
        None => return Err(damaged("it ends after the magic number")),
        Some(&VERSION) => {}
        Some(&found) => return Err(SnapshotError::Version { found }),
    }
    let (content, sum) =
        bytes.split_last_chunk::<SUM>().ok_or_else(|| damaged("it has no checksum"))?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(damaged("the checksum does not fit"));
    }
    let (length, rest) = content
        .get(MAGIC.len() + 1..)
        .and_then(|rest| rest.split_first_chunk::<4>())
        .ok_or_else(|| damaged("it ends before the header"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > HEADER_LIMIT {
        return Err(damaged("the header is too long"));
    }
    let (fields, body) =
        rest.split_at_checked(length).ok_or_else(|| damaged("it ends in the header"))?;
    let (header, []) = postcard::take_from_bytes::<Header>(fields)
        .map_err(|error| damaged(&format!("header: {error}")))?
    else {
        return Err(damaged("bytes follow the header"));
    };
    if header.body != body.len() as u64 {
        return Err(damaged("the length does not fit"));
    }
    Ok((header, body))
}

/// The name of the snapshot that ends with the entry at `index`.
pub fn file_name(index: u64) -> String {
    format!("snapshot_{index:016}.snap")
}

/// The index in a snapshot's name.
pub fn index_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("snapshot_")?.strip_suffix(".snap")?;
    (digits.len() >= 16).then(|| digits.parse().ok()).flatten()
}

/// A snapshot file that could not be used.
#[derive(Clone, Debug)]
pub struct Unusable {
    pub path: PathBuf,
    pub why: SnapshotError,
}

/// The newest snapshot that verifies, and what was passed over on the way.
#[derive(Debug, Default)]
pub struct Found {
    pub newest: Option<(Header, Vec<u8>)>,
    /// The one before it, if that verifies too.
    pub older: Option<Position>,
    pub unusable: Vec<Unusable>,
}

/// The indices of the snapshot files in a folder, rising.
pub fn indices(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<u64>> {
    let mut indices: Vec<u64> =
        files::names(disk, folder)?.iter().filter_map(|name| index_of(name)).collect();
    indices.sort_unstable();
    Ok(indices)
}

/// Looks for the newest snapshot by its index. Reads only.
pub fn find(disk: &dyn Disk, folder: &Path, limit: u64) -> io::Result<Found> {
    let mut found = Found::default();
    for index in indices(disk, folder)?.into_iter().rev() {
        let path = folder.join(file_name(index));
        match load(disk, &path, index, limit) {
            Ok((header, _)) if found.newest.is_some() => {
                found.older = header.last;
                break;
            }
            Ok(newest) => found.newest = Some(newest),
            Err(why) => found.unusable.push(Unusable { path, why }),
        }
    }
    Ok(found)
}

/// One snapshot file, verified. A file that cannot be read is as bad as one that does not verify.
pub fn load(
    disk: &dyn Disk,
    path: &Path,
    index: u64,
    limit: u64,
) -> Result<(Header, Vec<u8>), SnapshotError> {
    let bytes = files::read_all(disk, path, limit)
        .map_err(|error| SnapshotError::Damaged { what: error.to_string() })?;
    let (header, _) = decode(&bytes)?;
    if header.index() != index {
        let what = format!("{} ends with entry {}", file_name(index), header.index());
        return Err(SnapshotError::Mismatch { what });
    }
    Ok((header, bytes))
}

/// The snapshots of a running node.
pub struct Snapshots {
    folder: PathBuf,
    limit: u64,
    lane: Arc<Lane>,
    /// Places of the files that are known to be whole, oldest first.
    kept: Mutex<Vec<Position>>,
}

impl Snapshots {
    /// `kept`: the places of the whole ones, oldest first.
    pub fn new(folder: PathBuf, limit: u64, lane: Arc<Lane>, kept: Vec<Position>) -> Self {
        Self { folder, limit, lane, kept: Mutex::new(kept) }
    }

    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// How far back the log must reach so that losing the newest snapshot loses nothing.
    pub fn oldest(&self) -> Option<Position> {
        lock(&self.kept).first().copied()
    }

    pub fn newest(&self) -> Option<Position> {
        lock(&self.kept).last().copied()
    }

    /// Writes a snapshot. When this returns it survives a power failure, and older ones have been
    /// given up.
    pub async fn write(&self, last: Position, bytes: Arc<Vec<u8>>) -> io::Result<()> {
        if bytes.len() as u64 > self.limit {
            let (length, limit) = (bytes.len(), self.limit);
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the snapshot has {length} bytes; `snapshot_bytes` allows {limit}"),
            ));
        }
        let folder = self.folder.clone();
        let name = file_name(last.index);
        self.lane.run(move |disk| files::replace(disk, &folder, &name, &bytes)).await?;
        let keep: Vec<u64> = {
            let mut kept = lock(&self.kept);
            kept.retain(|position| position.index < last.index);
            kept.push(last);
            let surplus = kept.len().saturating_sub(KEPT);
            kept.drain(..surplus);
            kept.iter().map(|position| position.index).collect()
        };
        let folder = self.folder.clone();
        let pruned = self.lane.run(move |disk| prune(disk, &folder, &keep)).await;
        if let Err(error) = pruned {
            tracing::warn!(%error, "old snapshots could not be removed; it is tried again with the next");
        }
        Ok(())
    }

    /// The bytes of the newest snapshot, verified; `Err` if the file is not what was written.
    pub async fn read_newest(&self) -> io::Result<Option<(Header, Vec<u8>)>> {
        let Some(newest) = self.newest() else { return Ok(None) };
        let (folder, limit, index) = (self.folder.clone(), self.limit, newest.index);
        let loaded = self
            .lane
            .run(move |disk| Ok(load(disk, &folder.join(file_name(index)), index, limit)))
            .await?;
        loaded.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// Removes the snapshots that are not in `keep`. Files that were moved aside stay.
fn prune(disk: &dyn Disk, folder: &Path, keep: &[u64]) -> io::Result<()> {
    let mut removed = false;
    for name in files::names(disk, folder)? {
        if index_of(&name).is_some_and(|index| !keep.contains(&index)) {
            disk.remove(&folder.join(&name))?;
            removed = true;
        }
    }
    if removed { disk.sync_folder(folder) } else { Ok(()) }
}

/// Prepares the folder for a node that starts: leftovers of unfinished writes go, damaged files are
/// moved aside, and the one that was chosen is made durable under its name (a crash may have come
/// between the rename and that).
pub fn tidy(disk: &dyn Disk, folder: &Path, unusable: &[Unusable]) -> io::Result<()> {
    disk.create_folder(folder)?;
    for name in disk.list(folder)? {
        if name.ends_with(files::UNFINISHED) {
            disk.remove(&folder.join(&name))?;
        }
    }
    for Unusable { path, .. } in unusable {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            disk.rename(path, &folder.join(format!("{ASIDE}{name}")))?;
        }
    }
    disk.sync_folder(folder)
}
