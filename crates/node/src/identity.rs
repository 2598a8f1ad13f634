//! Who this process is: a node, and the life it is in.
//!
//! The node id is the certificate's. The boot rises, durably, at every start, so that what was
//! meant for an earlier life can be told apart. Both are kept in `DATA/node`, and whoever holds the
//! folder holds `DATA/node.lock`.
//!
//! Managers are the exception: their ledger's storage keeps the very same two numbers (node and
//! boot) in its own identity file, raised under its own lock, and votes and sessions hang on them.
//! Two files could come to disagree by a crash between two writes, so there is one source each: a
//! manager opens its storage with the certificate's node id and hands the [`Life`] that it finds
//! there to [`Config::life`](crate::Config); everybody else opens a [`NodeFolder`].
//!
//! The file also says under which lock the last life began: the kernel's boot id with device and
//! inode of the lock file. A life that begins under the same lock as the one before knows that the
//! process of that one is gone, because it held the lock. Under another lock (the machine was
//! restarted, the folder was copied, its volume was moved) it knows nothing of those before, and
//! its boot rises by a random step, so that two copies of one folder do not count alike.
//!
//! A folder also has a number that was drawn when it was made. A node that comes back with a new
//! folder under its old certificate counts its boots from 1 again; the others know the number, and
//! it is told to stop.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checked::{Format, Unreadable};
use fence::{BootId, NodeId};
use ledger::store::files;
use serde::{Deserialize, Serialize};
use wal::Disk;

pub const FILE: &str = "node";
pub const LOCK: &str = "node.lock";
const VERSION: u8 = 2;
const FORMAT: Format = Format { magic: *b"VLLYMEMB", version: VERSION };
/// How far a boot may rise at once. Far above how often a node is started before a copy of it is
/// noticed.
const STEP_MAX: u64 = 1 << 20;
/// Far above what the fields take; a larger file is not ours.
const BYTES_MAX: u64 = 4096;

/// One life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    pub node: NodeId,
    pub boot: BootId,
    /// The processes of the lives from this one to before `boot` are certainly gone.
    pub since: BootId,
    /// Drawn when the data folder was made. A manager hands in the number of its ledger's disk,
    /// which a later boot may replace; 0 if it has none.
    pub folder: u64,
}

impl Life {
    /// A life that knows nothing of those before it.
    #[must_use]
    pub fn new(node: NodeId, boot: BootId, folder: u64) -> Self {
        Self { node, boot, since: boot, folder }
    }
}

/// What the file says: the last life, and the lock that it was begun under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    life: Life,
    lock: Option<u128>,
}

/// Why a data folder was not taken. Nothing was written to it.
#[derive(Debug)]
pub enum IdentityError {
    /// Another process uses the folder.
    InUse {
        folder: PathBuf,
    },
    Foreign {
        path: PathBuf,
    },
    Version {
        path: PathBuf,
        found: u8,
    },
    Damaged {
        path: PathBuf,
        what: &'static str,
    },
    /// The folder belongs to another node than the certificate.
    OtherNode {
        path: PathBuf,
        found: NodeId,
        certificate: NodeId,
    },
    /// The boot cannot rise any more; no life of a machine is that long.
    Exhausted {
        path: PathBuf,
    },
    Io {
        path: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { folder } => {
                write!(f, "{} is in use by another process; stop it first", folder.display())
            }
            Self::Foreign { path } => write!(
                f,
                "{} is not a Volley node file and was left as it is; choose another data folder",
                path.display()
            ),
            Self::Version { path, found } => write!(
                f,
                "{} has format version {found}, this program reads up to {VERSION}: start the newer program",
                path.display()
            ),
            Self::Damaged { path, what } => write!(
                f,
                "{} is damaged ({what}) and was left as it is: restore it from a copy, or move the data folder aside \
                 and give the node a certificate with a new node id",
                path.display()
            ),
            Self::OtherNode { path, found, certificate } => write!(
                f,
                "{} belongs to node {found}, the certificate to node {certificate}: give each node a data folder of \
                 its own; a folder never changes its node",
                path.display()
            ),
            Self::Exhausted { path } => {
                write!(f, "{}: the number of starts cannot rise any more", path.display())
            }
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for IdentityError {}

/// A data folder, held for as long as this lives.
pub struct NodeFolder {
    life: Life,
    _hold: Box<dyn Send + Sync>,
}

impl fmt::Debug for NodeFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeFolder").field("life", &self.life).finish_non_exhaustive()
    }
}

impl NodeFolder {
    /// Takes the folder (it is made if missing) and begins a new life of `node` in it. `drawn` is a
    /// random number: a new folder's, or how far the boot rises under another lock than before.
    ///
    /// # Errors
    /// If another process has it, it belongs to another node, or its file cannot be trusted.
    pub fn open(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        node: NodeId,
        drawn: u64,
    ) -> Result<Self, IdentityError> {
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |error| IdentityError::Io { path, error }
        };
        disk.create_folder(folder).map_err(io(folder))?;
        let hold = disk.lock(&folder.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => held(disk.as_ref(), folder, node),
            _ => IdentityError::Io { path: folder.join(LOCK), error },
        })?;
        let path = folder.join(FILE);
        let lock = disk.lock_number(&folder.join(LOCK));
        let Stored { mut life, lock: before } =
            match files::read_all(disk.as_ref(), &path, BYTES_MAX) {
                Ok(bytes) => decode(&path, &bytes)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Zero means "no number"; one in 2^64 folders is called 1 instead.
                    Stored { life: Life::new(node, BootId(0), drawn.max(1)), lock }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(IdentityError::Foreign { path });
                }
                Err(error) => return Err(IdentityError::Io { path, error }),
            };
        if life.node != node {
            return Err(IdentityError::OtherNode { path, found: life.node, certificate: node });
        }
        let step = if lock == before { 1 } else { 1 + drawn % STEP_MAX };
        life.boot = match life.boot.0.checked_add(step) {
            Some(boot) => BootId(boot),
            None => return Err(IdentityError::Exhausted { path }),
        };
        if lock.is_none() || lock != before || life.since == BootId(0) {
            life.since = life.boot;
        }
        files::replace(disk.as_ref(), folder, FILE, &encode(&Stored { life, lock }))
            .map_err(io(&path))?;
        Ok(Self { life, _hold: hold })
    }

    #[must_use]
    pub fn life(&self) -> Life {
        self.life
    }
}

/// Another process has the folder: whoever has given it to two nodes should not stop one of them.
fn held(disk: &dyn Disk, folder: &Path, node: NodeId) -> IdentityError {
    let path = folder.join(FILE);
    let bytes = files::read_all(disk, &path, BYTES_MAX).ok();
    match bytes.and_then(|bytes| decode(&path, &bytes).ok()) {
        Some(Stored { life, .. }) if life.node != node => {
            IdentityError::OtherNode { path, found: life.node, certificate: node }
        }
        _ => IdentityError::InUse { folder: folder.into() },
    }
}

fn encode(stored: &Stored) -> Vec<u8> {
    FORMAT.encode(stored)
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Stored, IdentityError> {
    let path = || path.to_path_buf();
    FORMAT.decode(bytes).map_err(|unreadable| match unreadable {
        Unreadable::Foreign => IdentityError::Foreign { path: path() },
        Unreadable::Version(found) => IdentityError::Version { path: path(), found },
        Unreadable::Damaged(what) => IdentityError::Damaged { path: path(), what },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    const NODE: NodeId = NodeId(0xabc << 100);

    fn disk() -> Arc<dyn Disk> {
        Arc::new(wal::RealDisk)
    }

    fn open(folder: &Path) -> Result<NodeFolder, IdentityError> {
        NodeFolder::open(&disk(), folder, NODE, 77)
    }

    /// R2: the node stays, the boot rises at every start, and the folder keeps its number.
    #[test]
    fn every_start_is_a_new_life_of_the_same_node() {
        let temp = TempDir::new().unwrap();
        let folder = temp.path().join("deep/data");
        for boot in 1..=3 {
            let life = open(&folder).unwrap().life();
            let since = BootId(1);
            assert_eq!(life, Life { node: NODE, boot: BootId(boot), since, folder: 77 });
        }
    }

    /// R24: who starts in a copy cannot know whether the process that the folder was copied from is
    /// gone.
    #[test]
    fn a_life_in_a_copied_folder_vouches_for_none_before_it() {
        let temp = TempDir::new().unwrap();
        let (first, copy) = (temp.path().join("first"), temp.path().join("copy"));
        let held = open(&first).unwrap();
        fs::create_dir(&copy).unwrap();
        for name in [FILE, LOCK] {
            fs::copy(first.join(name), copy.join(name)).unwrap();
        }
        let life = open(&copy).unwrap().life();
        assert_eq!((life.boot, life.since), (BootId(1 + 1 + 77), BootId(1 + 1 + 77)));
        let again = open(&copy).unwrap().life();
        assert_eq!((again.boot, again.since), (BootId(80), BootId(79)), "its own lives it knows");
        drop(held);
        let life = open(&first).unwrap().life();
        assert_eq!((life.boot, life.since), (BootId(2), BootId(1)));
    }

    /// A machine that was restarted, or another one that the volume was moved to: another boot id
    /// of the kernel.
    #[test]
    fn a_life_under_another_kernel_vouches_for_none_before_it() {
        let temp = TempDir::new().unwrap();
        open(temp.path()).unwrap();
        let path = temp.path().join(FILE);
        let mut stored = decode(&path, &fs::read(&path).unwrap()).unwrap();
        stored.lock = stored.lock.map(|lock| lock ^ (1 << 100));
        fs::write(&path, encode(&stored)).unwrap();
        let life = open(temp.path()).unwrap().life();
        assert!(life.boot > BootId(1));
        assert_eq!(life.since, life.boot);
    }

    #[test]
    fn two_processes_cannot_share_a_folder() {
        let temp = TempDir::new().unwrap();
        let held = open(temp.path()).unwrap();
        assert!(matches!(open(temp.path()), Err(IdentityError::InUse { .. })));
        // The remedy is another folder, and not to stop the one that has it.
        let other = NodeFolder::open(&disk(), temp.path(), NodeId(5), 77);
        assert!(matches!(other, Err(IdentityError::OtherNode { found: NODE, .. })));
        drop(held);
        assert_eq!(open(temp.path()).unwrap().life().boot, BootId(2), "a refused start is no life");
    }

    /// Every kind of bad file is refused by its name and left as it was.
    #[test]
    fn a_bad_file_is_refused_by_name_and_not_written_over() {
        let temp = TempDir::new().unwrap();
        let path = temp.path().join(FILE);
        let of = |node| {
            let lock = disk().lock_number(&temp.path().join(LOCK));
            encode(&Stored { life: Life::new(node, BootId(4), 9), lock })
        };
        drop(open(temp.path()).unwrap());
        let good = of(NODE);
        let mut newer = good.clone();
        newer[FORMAT.magic.len()] = VERSION + 1;
        let mut rotten = good.clone();
        rotten[12] ^= 1;
        let other = of(NodeId(5));
        let cut = good[..10].to_vec();
        let cases: [(&str, Vec<u8>); 6] = [
            ("not a Volley node file", b"hello".to_vec()),
            ("not a Volley node file", vec![0; 5000]),
            ("format version 3", newer),
            ("is damaged", rotten),
            ("is damaged", cut),
            ("belongs to node", other),
        ];
        for (words, bytes) in cases {
            fs::write(&path, &bytes).unwrap();
            let error = open(temp.path()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "{words}");
        }
        fs::write(&path, &good).unwrap();
        assert_eq!(open(temp.path()).unwrap().life().boot, BootId(5));
    }
}
