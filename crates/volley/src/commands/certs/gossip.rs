//! The gossip key as a file: 32 random bytes in base64, one line, for its owner alone.

use crate::failure::Failure;
use std::fmt;
use std::path::Path;

use membership::envelope::{KeyId, KeyRing};
use node::secret::{GossipKey, SecretError};
use trust::{CaError, create_private};

/// A key that a ring would take, and its name.
pub struct NamedKey {
    key: GossipKey,
    id: KeyId,
}

impl NamedKey {
    fn new(key: GossipKey) -> Result<NamedKey, Failure> {
        let ring = KeyRing::new(key.0).map_err(Failure::failed)?;
        Ok(NamedKey { key, id: ring.sealing() })
    }

    /// What is in its file.
    pub fn text(&self) -> String {
        format!("{}\n", self.key.to_text())
    }
}

/// Its name, never itself.
impl fmt::Display for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// Makes a key and its file.
pub fn draw(path: &Path) -> Result<NamedKey, Failure> {
    let key = NamedKey::new(GossipKey::draw().map_err(Failure::failed)?)?;
    create_private(path, key.text().as_bytes()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::failed(CaError::Exists { path: path.to_path_buf() })
        }
        _ => Failure::failed(error).at(path.display()),
    })?;
    Ok(key)
}

pub fn read(path: &Path) -> Result<NamedKey, Failure> {
    let key = GossipKey::load(path).map_err(|error| {
        let failure = Failure::failed(&error).at("the gossip key");
        match error {
            SecretError::NotAKey { .. } => {
                failure.help("`volley certs gossip-key` makes a new one")
            }
            _ => failure,
        }
    })?;
    NamedKey::new(key).map_err(|failure| failure.at(path.display()))
}
