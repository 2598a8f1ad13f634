//! The gossip key as a file: 32 random bytes in base64, one line, for its owner alone.

use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use membership::envelope::{KeyId, KeyRing};
use trust::{CaError, create_private};

/// A key file is one line of 45 bytes; anything much longer is something else.
const FILE_BYTES_MAX: u64 = 1024;

pub struct GossipKey {
    bytes: [u8; 32],
    id: KeyId,
}

impl GossipKey {
    fn new(bytes: [u8; 32]) -> Result<GossipKey, String> {
        let ring = KeyRing::new(bytes).map_err(|error| error.to_string())?;
        Ok(GossipKey { bytes, id: ring.sealing() })
    }

    /// What is in its file.
    pub fn text(&self) -> String {
        format!("{}\n", STANDARD.encode(self.bytes))
    }
}

/// Its name, never itself.
impl fmt::Display for GossipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// Makes a key and its file.
pub fn draw(path: &Path) -> Result<GossipKey, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    let key = GossipKey::new(bytes)?;
    create_private(path, key.text().as_bytes()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CaError::Exists { path: path.to_path_buf() }.to_string()
        }
        _ => format!("{}: {error}", path.display()),
    })?;
    Ok(key)
}

pub fn read(path: &Path) -> Result<GossipKey, String> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    opened
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| format!("cannot read the gossip key {}: {error}", path.display()))?;
    let bytes =
        STANDARD.decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| {
        format!(
            "{} is not a gossip key: 32 bytes in base64 are expected; `volley certs gossip-key` makes one",
            path.display()
        )
    })?;
    GossipKey::new(bytes).map_err(|why| format!("{}: {why}", path.display()))
}
