//! Who this data folder is: the node, its present life, the disk, and the group that it belongs to.
//!
//! The disk has a number of its own because a node that comes back with an empty disk has forgotten
//! what it voted for. The other members know the number, and count it out until it was admitted
//! again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base::checked::{Format, Unreadable};
use fence::{BootId, GroupId, NodeId};
use ledger_state::Limits;
use serde::{Deserialize, Serialize};
use wal::Disk;

use super::files;
use crate::types::DiskId;

pub const FILE: &str = "identity";
const VERSION: u8 = 1;
const FORMAT: Format = Format { magic: *b"VLLYNODE", version: VERSION };
/// Far above what the fields take; a larger file is not ours.
const LIMIT: u64 = 4096;

/// What a data folder says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub node: NodeId,
    /// This life of the node; raised, durably, at every open.
    pub boot: BootId,
    pub disk: DiskId,
    /// Known once the node has founded a group or joined one.
    pub group: Option<GroupId>,
    /// The log was lost or given up: the node must not vote before a member has admitted it under
    /// its new disk.
    pub awaits_admission: bool,
    /// There was a log once. If there is none now, it was lost.
    pub(crate) had_log: bool,
}

/// The identity file: who the folder is, and the limits that its group was made with. They belong
/// to the group, not to a setting of today: members that applied the log under different limits
/// would come to different states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityFile {
    pub identity: Identity,
    pub limits: Option<Limits>,
}

/// Why an identity file was not taken.
#[derive(Debug)]
pub enum IdentityError {
    Foreign { path: PathBuf },
    Version { path: PathBuf, found: u8 },
    Damaged { path: PathBuf, what: &'static str },
    Io { path: PathBuf, error: io::Error },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { path } => write!(
                f,
                "{} is not a Volley identity file: this is no data folder of a ledger node, and was left as it is",
                path.display()
            ),
            Self::Version { path, found } => write!(
                f,
                "{} has format version {found}, this program reads up to {VERSION}: start the newer program",
                path.display()
            ),
            Self::Damaged { path, what } => write!(
                f,
                "{} is damaged ({what}): move the data folder aside, start with an empty one and admit the node again",
                path.display()
            ),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for IdentityError {}

impl IdentityFile {
    pub fn encode(&self) -> Vec<u8> {
        FORMAT.encode(self)
    }

    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, IdentityError> {
        let path = || path.to_path_buf();
        FORMAT.decode(bytes).map_err(|unreadable| match unreadable {
            Unreadable::Foreign => IdentityError::Foreign { path: path() },
            Unreadable::Version(found) => IdentityError::Version { path: path(), found },
            Unreadable::Damaged(what) => IdentityError::Damaged { path: path(), what },
        })
    }

    /// The identity of a folder; none if it has none yet.
    pub fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, IdentityError> {
        let path = folder.join(FILE);
        match files::read_all(disk, &path, LIMIT) {
            Ok(bytes) => Self::decode(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(IdentityError::Foreign { path })
            }
            Err(error) => Err(IdentityError::Io { path, error }),
        }
    }

    pub fn save(&self, disk: &dyn Disk, folder: &Path) -> Result<(), IdentityError> {
        files::replace(disk, folder, FILE, &self.encode())
            .map_err(|error| IdentityError::Io { path: folder.join(FILE), error })
    }
}
