//! The witness: a second place that knows how far the log was acknowledged.
//!
//! A disk that confirms a flush without making it, and rot in the last acknowledged batch, both
//! look like a torn tail in the log itself. So after each flush of the log its end is written to
//! `wal.mark` as well. At the next start a log that ends before the mark has lost what was
//! acknowledged, and is refused.
//!
//! Two slots, 4096 bytes apart. Writing goes to the slot that does *not* hold the last flushed
//! mark, until a flush makes it the flushed one; so whatever a crash does to unflushed writes, one
//! slot is whole. The file is flushed at most once a second and whenever a segment is sealed, so it
//! costs a small write per flush and no more.
//!
//! The mark also keeps the first LSN that must still exist, so that a missing oldest segment is
//! noticed too.
//!
//! Rule for a missing or unreadable mark beside a log that has segments: refuse. The mark is made
//! and flushed before the first segment, and a crash cannot damage both slots, so its absence means
//! that somebody or something took it away, and then nothing can vouch for the end of the log.
//! `Options::rebuild_witness` lets an operator decide otherwise.

use std::io;
use std::path::{Path, PathBuf};

use fence::NodeId;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::frame::{FORMAT, HeadFlaw, check_envelope, sealed_checksum, u32_at, u64_at};
use crate::options::LogIdentity;

pub(crate) const MARK_FILE: &str = "wal.mark";
const MAGIC: [u8; 8] = *b"VOLLYMRK";
const SLOT_BYTES: usize = 96;
const SLOT_DISTANCE: u64 = 4096;

/// What a slot says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub sequence: u64,
    /// Highest LSN whose flush the disk has confirmed.
    pub lsn: u64,
    /// Checksum of that record, to know it again; 0 if there is none.
    pub checksum: u32,
    /// Lowest LSN that must still be there.
    pub floor: u64,
    pub segment: u64,
    pub end: u64,
    pub incarnation: u64,
}

impl Mark {
    fn encode(&self, identity: LogIdentity) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        let numbers = [
            identity.log,
            self.sequence,
            self.lsn,
            self.floor,
            self.segment,
            self.end,
            self.incarnation,
        ];
        for (i, number) in numbers.iter().enumerate() {
            bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        bytes[72..88].copy_from_slice(&identity.node.0.to_le_bytes());
        bytes[88..92].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = sealed_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<(Self, LogIdentity), HeadFlaw> {
        check_envelope(bytes, &MAGIC, SLOT_BYTES)?;
        let mut node = [0; 16];
        node.copy_from_slice(&bytes[72..88]);
        let identity =
            LogIdentity { node: NodeId(u128::from_le_bytes(node)), log: u64_at(bytes, 16) };
        let mark = Self {
            sequence: u64_at(bytes, 24),
            lsn: u64_at(bytes, 32),
            floor: u64_at(bytes, 40),
            segment: u64_at(bytes, 48),
            end: u64_at(bytes, 56),
            incarnation: u64_at(bytes, 64),
            checksum: u32_at(bytes, 88),
        };
        Ok((mark, identity))
    }
}

/// What the file was found to hold.
pub(crate) enum Found {
    /// No such file.
    Missing,
    /// No slot is readable.
    Unreadable(String),
    /// The newest readable mark and its slot.
    Mark(Mark, u64),
}

/// Reads the witness without changing it.
pub(crate) fn read(
    disk: &dyn Disk,
    folder: &Path,
    identity: LogIdentity,
) -> Result<Found, OpenError> {
    let path = folder.join(MARK_FILE);
    let file = match disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(OpenError::io(&path, "opening", error)),
    };
    let mut newest: Option<(Mark, u64)> = None;
    let mut flaws = Vec::new();
    for slot in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        let read = file
            .read_full_at(&mut bytes, slot * SLOT_DISTANCE)
            .map_err(|error| OpenError::io(&path, "reading", error))?;
        match Mark::decode(&bytes[..read]) {
            Ok((_, found)) if found != identity => {
                return Err(other_log(&path, found, identity));
            }
            Ok((mark, _)) => {
                if newest.is_none_or(|(other, _)| other.sequence < mark.sequence) {
                    newest = Some((mark, slot));
                }
            }
            Err(HeadFlaw::Version(found)) => {
                return Err(OpenError::Version { path, found, supported: FORMAT });
            }
            Err(HeadFlaw::Foreign(why) | HeadFlaw::Unfinished(why)) => flaws.push(why),
        }
    }
    Ok(match newest {
        Some((mark, slot)) => Found::Mark(mark, slot),
        None => Found::Unreadable(flaws.join("; ")),
    })
}

pub(crate) fn other_log(path: &Path, found: LogIdentity, expected: LogIdentity) -> OpenError {
    let name = |identity: LogIdentity| format!("node {} log {}", identity.node, identity.log);
    OpenError::OtherLog { path: path.to_path_buf(), found: name(found), expected: name(expected) }
}

/// The witness of an open log.
pub(crate) struct Witness {
    file: Box<dyn DiskFile>,
    pub path: PathBuf,
    identity: LogIdentity,
    pub mark: Mark,
    /// The slot that holds the last flushed mark; not written to.
    flushed: u64,
    /// Whether something was written since.
    pub dirty: bool,
}

impl Witness {
    /// Opens the file, or makes it, for writing. `found` is what `read` has said.
    pub fn open(
        disk: &dyn Disk,
        folder: &Path,
        identity: LogIdentity,
        found: &Found,
    ) -> Result<Self, OpenError> {
        let path = folder.join(MARK_FILE);
        if matches!(found, Found::Unreadable(_)) {
            // A first try ended before anything was written. If it was the flush of the name that
            // failed, the name can be seen and is not on the disk, and another flush would not put
            // it there: it is made anew.
            disk.remove(&path).map_err(|error| OpenError::io(&path, "removing", error))?;
        }
        let file = match found {
            Found::Missing | Found::Unreadable(_) => {
                let made =
                    disk.create(&path).and_then(|file| disk.sync_folder(folder).map(|()| file));
                made.map_err(|error| OpenError::io(&path, "making", error))?
            }
            Found::Mark(..) => {
                disk.open(&path).map_err(|error| OpenError::io(&path, "opening", error))?
            }
        };
        let (mark, flushed) = match found {
            Found::Mark(mark, slot) => (*mark, *slot),
            _ => (Mark { floor: 1, ..Mark::default() }, 1),
        };
        if matches!(found, Found::Mark(..)) {
            // If the flush of this mark had failed, it can be read but is not on the disk. The
            // other slot is overwritten only when it certainly is.
            file.write_all_at(&mark.encode(identity), flushed * SLOT_DISTANCE)
                .and_then(|()| file.sync_data())
                .map_err(|error| OpenError::io(&path, "flushing", error))?;
        }
        Ok(Self { file, path, identity, mark, flushed, dirty: false })
    }

    /// Notes a mark. It survives the process at once, the computer after `flush`.
    pub fn write(&mut self, mark: Mark) -> io::Result<()> {
        self.mark = Mark { sequence: self.mark.sequence.saturating_add(1), ..mark };
        let slot = 1 - self.flushed;
        self.dirty = true;
        self.file.write_all_at(&self.mark.encode(self.identity), slot * SLOT_DISTANCE)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.sync_data()?;
            self.flushed = 1 - self.flushed;
            self.dirty = false;
        }
        Ok(())
    }
}
