//! The keys of the gossip: 32 bytes each, in a file as base64, and the ring as it is kept on disk
//! between starts.
//!
//! A rotation changes the ring while the node runs. The ring in the data folder therefore wins over
//! the configured key, which only begins it; otherwise a restart would undo the rotation and cut
//! the node off.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ledger::store::files;
use membership::envelope::{KeyError, KeyId, KeyRing};
use serde::{Deserialize, Serialize};
use wal::Disk;

pub const RING_FILE: &str = "keyring";
const MAGIC: [u8; 8] = *b"VLLYRING";
const VERSION: u8 = 1;
const BYTES_MAX: u64 = 4096;

/// One key. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct GossipKey(pub [u8; 32]);

impl fmt::Debug for GossipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GossipKey(...)")
    }
}

/// Why a key or a ring was not taken.
#[derive(Debug)]
pub enum SecretError {
    Io { path: PathBuf, error: io::Error },
    NotAKey { path: PathBuf },
    Foreign { path: PathBuf },
    Version { path: PathBuf, found: u8 },
    Damaged { path: PathBuf },
    Key(KeyError),
    Random,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::NotAKey { path } => {
                write!(f, "{} does not hold 32 bytes in base64", path.display())
            }
            Self::Foreign { path } => {
                write!(f, "{} is not a Volley key ring and was left as it is", path.display())
            }
            Self::Version { path, found } => write!(
                f,
                "{} has format version {found}, this program reads up to {VERSION}: start the newer program",
                path.display()
            ),
            Self::Damaged { path } => write!(
                f,
                "{} is damaged; remove it, and the configured key begins a new ring (a rotation may have to be \
                 repeated)",
                path.display()
            ),
            Self::Key(error) => error.fmt(f),
            Self::Random => f.write_str("the operating system gave no random bytes"),
        }
    }
}

impl std::error::Error for SecretError {}

impl GossipKey {
    /// Draws a key.
    ///
    /// # Errors
    /// If the operating system has no random bytes.
    pub fn draw() -> Result<Self, SecretError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| SecretError::Random)?;
        Ok(Self(bytes))
    }

    /// As it stands in a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Reads what [`GossipKey::to_text`] has made; spaces around it are allowed.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        STANDARD.decode(text.trim()).ok()?.try_into().ok().map(Self)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// If it cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Self, SecretError> {
        use std::io::Read;
        let io = |error| SecretError::Io { path: path.into(), error };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(BYTES_MAX).read_to_string(&mut text).map_err(io)?;
        Self::from_text(&text).ok_or_else(|| SecretError::NotAKey { path: path.into() })
    }
}

/// The ring as it is on disk. The first key seals.
#[derive(Serialize, Deserialize)]
struct Kept {
    keys: Vec<[u8; 32]>,
}

/// The ring in `folder`; begun with `first` if there is none.
///
/// # Errors
/// If the file is there and cannot be trusted, or the key is too weak.
pub fn open_ring(
    disk: &dyn Disk,
    folder: &Path,
    first: &GossipKey,
) -> Result<KeyRing, SecretError> {
    let path = folder.join(RING_FILE);
    let bytes = match files::read_all(disk, &path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return KeyRing::new(first.0).map_err(SecretError::Key);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(SecretError::Foreign { path });
        }
        Err(error) => return Err(SecretError::Io { path, error }),
    };
    let kept = decode(&path, &bytes)?;
    let damaged = || SecretError::Damaged { path: path.clone() };
    let (sealing, others) = kept.keys.split_first().ok_or_else(damaged)?;
    let mut ring = KeyRing::new(*sealing).map_err(SecretError::Key)?;
    for key in others {
        ring.install(*key).map_err(SecretError::Key)?;
    }
    if !kept.keys.contains(&first.0) {
        tracing::warn!(
            ring = %path.display(),
            "the configured gossip key is not in the ring, which wins; put the key in use into the configuration"
        );
    }
    Ok(ring)
}

/// Keeps the ring for the next start.
///
/// # Errors
/// If the disk fails.
pub fn save_ring(
    disk: &dyn Disk,
    folder: &Path,
    sealing: KeyId,
    keys: &[(KeyId, [u8; 32])],
) -> Result<(), SecretError> {
    let first = keys.iter().filter(|(id, _)| *id == sealing);
    let others = keys.iter().filter(|(id, _)| *id != sealing);
    let kept = Kept { keys: first.chain(others).map(|(_, key)| *key).collect() };
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    let mut bytes = postcard::to_extend(&kept, bytes).unwrap_or_default();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    files::replace(disk, folder, RING_FILE, &bytes)
        .map_err(|error| SecretError::Io { path: folder.join(RING_FILE), error })
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Kept, SecretError> {
    let damaged = || SecretError::Damaged { path: path.into() };
    let rest =
        bytes.strip_prefix(&MAGIC).ok_or_else(|| SecretError::Foreign { path: path.into() })?;
    match rest.first() {
        Some(&VERSION) => {}
        Some(&found) => return Err(SecretError::Version { path: path.into(), found }),
        None => return Err(damaged()),
    }
    let (content, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    let fields = content.get(MAGIC.len() + 1..).ok_or_else(damaged)?;
    match postcard::take_from_bytes(fields) {
        Ok((kept, [])) => Ok(kept),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn key(seed: u8) -> GossipKey {
        GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(7).wrapping_add(seed)))
    }

    /// A rotation outlives a restart: the ring on disk wins over the configured key.
    #[test]
    fn the_ring_on_disk_wins_over_the_configured_key() {
        let temp = TempDir::new().unwrap();
        let disk = wal::RealDisk;
        let mut ring = open_ring(&disk, temp.path(), &key(1)).unwrap();
        let old = ring.sealing();
        let new = ring.install(key(2).0).unwrap();
        ring.use_key(new).unwrap();
        save_ring(&disk, temp.path(), ring.sealing(), &ring.keys()).unwrap();
        let again = open_ring(&disk, temp.path(), &key(1)).unwrap();
        assert_eq!((again.sealing(), again.ids().len()), (new, 2));
        ring.remove(old).unwrap();
        save_ring(&disk, temp.path(), ring.sealing(), &ring.keys()).unwrap();
        assert_eq!(open_ring(&disk, temp.path(), &key(1)).unwrap().ids(), [new]);
    }

    #[test]
    fn a_bad_ring_is_refused_by_name() {
        let temp = TempDir::new().unwrap();
        let path = temp.path().join(RING_FILE);
        let ring = KeyRing::new(key(1).0).unwrap();
        save_ring(&wal::RealDisk, temp.path(), ring.sealing(), &ring.keys()).unwrap();
        let good = std::fs::read(&path).unwrap();
        let mut newer = good.clone();
        newer[MAGIC.len()] = 9;
        let mut rotten = good.clone();
        rotten[20] ^= 1;
        let cases =
            [(b"text".to_vec(), "not a Volley"), (newer, "version 9"), (rotten, "is damaged")];
        for (bytes, words) in cases {
            std::fs::write(&path, &bytes).unwrap();
            let error = open_ring(&wal::RealDisk, temp.path(), &key(1)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_key_survives_its_file() {
        let key = GossipKey::draw().unwrap();
        assert_eq!(GossipKey::from_text(&format!(" {}\n", key.to_text())), Some(key));
        assert_eq!(GossipKey::from_text("AAAA"), None);
        assert_eq!(GossipKey::from_text("not base64!"), None);
    }
}
