//! Looking into a data folder without touching it: what `volley debug ledger inspect` and `verify`
//! show.
//!
//! Nothing here takes a lock or writes, so a running node is not disturbed. What it is writing at
//! that moment may look like an unfinished tail; that is said, and is no damage.

mod line;
mod verify;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wal::{Disk, ReadError, Reader};

pub use line::{CommandLine, ContentLine, RecordLine, RecordWords};
pub use verify::{BlobReport, LogReport, Report, SnapshotReport, verify};

use crate::blobs;
use crate::store::{
    Identity, IdentityError, IdentityFile, SnapshotError, SnapshotHeader, open, snapshot,
};

/// Why a folder cannot be looked into.
#[derive(Debug)]
pub enum InspectError {
    /// There is no identity file: this is not a data folder.
    NotADataFolder {
        folder: PathBuf,
    },
    Identity(IdentityError),
    Log(ReadError),
    Io {
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADataFolder { folder } => write!(
                f,
                "{} is not a data folder of a ledger node: there is no identity file in it",
                folder.display()
            ),
            Self::Identity(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for InspectError {}

/// A data folder, open for looking.
pub struct Inspection {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    identity: Identity,
}

/// A snapshot file, by its name and its header.
#[derive(Clone, Debug)]
pub struct SnapshotLine {
    pub path: PathBuf,
    pub index: u64,
    /// Verified: checksum, length, version.
    pub header: Result<SnapshotHeader, SnapshotError>,
}

impl Inspection {
    pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, InspectError> {
        let folder = folder.to_path_buf();
        match IdentityFile::load(disk.as_ref(), &folder) {
            Ok(Some(file)) => Ok(Self { disk, folder, identity: file.identity }),
            Ok(None) => Err(InspectError::NotADataFolder { folder }),
            Err(error) => Err(InspectError::Identity(error)),
        }
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The records of a range of LSNs (half-open), in order, each verified; the first that does not
    /// verify is the last item. The log may begin later than the range: it then begins there.
    pub fn records(
        &self,
        range: Range<u64>,
    ) -> Result<impl Iterator<Item = Result<RecordLine, InspectError>> + use<>, InspectError> {
        let folder = self.folder.join(open::WAL);
        let reader = Reader::open(self.disk.clone(), folder).map_err(InspectError::Log)?;
        let first = match reader.read(1..2).next() {
            Some(Err(ReadError::Truncated { first, .. })) => first,
            _ => 1,
        };
        let records = reader.read(range.start.max(first)..range.end);
        Ok(records
            .map(|record| record.map(|record| RecordLine::new(&record)).map_err(InspectError::Log)))
    }

    /// The snapshots, oldest first. Each is read once to verify it.
    pub fn snapshots(&self) -> Result<impl Iterator<Item = SnapshotLine> + use<>, InspectError> {
        let folder = self.folder.join(open::SNAPSHOTS);
        let indices = snapshot::indices(self.disk.as_ref(), &folder)
            .map_err(|error| InspectError::Io { path: folder.clone(), error })?;
        let disk = self.disk.clone();
        Ok(indices.into_iter().map(move |index| {
            let path = folder.join(snapshot::file_name(index));
            let loaded = snapshot::load(disk.as_ref(), &path, index, u64::MAX);
            SnapshotLine { path, index, header: loaded.map(|(header, _)| header) }
        }))
    }

    /// Number of blobs and their bytes, by their names.
    pub fn blobs(&self) -> Result<(u64, u64), InspectError> {
        let root = self.folder.join(open::BLOBS);
        let found = blobs::list(self.disk.as_ref(), &root)
            .map_err(|error| InspectError::Io { path: root, error })?;
        Ok((found.len() as u64, found.iter().map(|blob| blob.bytes).sum()))
    }
}
