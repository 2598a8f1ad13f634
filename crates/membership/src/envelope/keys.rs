//! The keys of the cluster, and how they are changed without downtime.
//!
//! Three steps, each on every node before the next begins: *install* the new key (it opens, the old
//! one still seals), *use* it (it seals, the old one still opens), *remove* the old one. At no
//! moment do two nodes fail to understand each other.

use std::collections::BTreeMap;
use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// How many keys a ring holds at most. Two are enough for a rotation; a few more for one that was
/// interrupted.
const KEYS_MAX: usize = 8;

/// A key with fewer different bytes than this was typed by hand, not drawn.
const DISTINCT_BYTES_MIN: usize = 12;

/// Names a key on the wire. It follows from the key, so nobody has to hand out numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {self}")
    }
}

/// Why a change of the ring was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Fewer than twelve different bytes: such a key can be guessed.
    Weak,
    /// Two different keys have the same name. Draw another one.
    NameTaken(KeyId),
    Unknown(KeyId),
    /// The key that seals cannot be removed; `use` another one first.
    InUse(KeyId),
    Full,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weak => write!(f, "the key is too regular to be secret; draw 32 random bytes"),
            Self::NameTaken(id) => write!(f, "another key is already called {id}; draw a new one"),
            Self::Unknown(id) => write!(f, "key {id} is not in the ring; install it first"),
            Self::InUse(id) => write!(f, "key {id} is in use; use another key before removing it"),
            Self::Full => write!(f, "the ring holds {KEYS_MAX} keys already; remove an old one"),
        }
    }
}

impl std::error::Error for KeyError {}

/// The keys that open datagrams, and the one that seals them.
pub struct KeyRing {
    ciphers: BTreeMap<KeyId, (XChaCha20Poly1305, [u8; 32])>,
    sealing: KeyId,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("keys", &self.ids())
            .field("sealing", &self.sealing)
            .finish()
    }
}

impl KeyRing {
    /// A ring with one key, which is in use.
    pub fn new(key: [u8; 32]) -> Result<Self, KeyError> {
        check_strength(&key)?;
        let (id, cipher) = name_of(&key);
        Ok(Self { ciphers: BTreeMap::from([(id, (cipher, key))]), sealing: id })
    }

    /// From now on datagrams under this key are opened. Installing a key twice is harmless.
    pub fn install(&mut self, key: [u8; 32]) -> Result<KeyId, KeyError> {
        check_strength(&key)?;
        let (id, cipher) = name_of(&key);
        match self.ciphers.get(&id) {
            Some((_, known)) if *known == key => return Ok(id),
            Some(_) => return Err(KeyError::NameTaken(id)),
            None if self.ciphers.len() >= KEYS_MAX => return Err(KeyError::Full),
            None => {}
        }
        self.ciphers.insert(id, (cipher, key));
        Ok(id)
    }

    /// From now on this key seals.
    pub fn use_key(&mut self, id: KeyId) -> Result<(), KeyError> {
        if !self.ciphers.contains_key(&id) {
            return Err(KeyError::Unknown(id));
        }
        self.sealing = id;
        Ok(())
    }

    /// From now on datagrams under this key are refused.
    pub fn remove(&mut self, id: KeyId) -> Result<(), KeyError> {
        if id == self.sealing {
            return Err(KeyError::InUse(id));
        }
        self.ciphers.remove(&id).map(|_| ()).ok_or(KeyError::Unknown(id))
    }

    #[must_use]
    pub fn ids(&self) -> Vec<KeyId> {
        self.ciphers.keys().copied().collect()
    }

    /// The keys themselves, for whoever keeps the ring between two starts. They belong into no log.
    #[must_use]
    pub fn keys(&self) -> Vec<(KeyId, [u8; 32])> {
        self.ciphers.iter().map(|(id, (_, key))| (*id, *key)).collect()
    }

    #[must_use]
    pub fn sealing(&self) -> KeyId {
        self.sealing
    }

    pub(super) fn cipher(&self, id: KeyId) -> Option<&XChaCha20Poly1305> {
        self.ciphers.get(&id).map(|(cipher, _)| cipher)
    }
}

fn check_strength(key: &[u8; 32]) -> Result<(), KeyError> {
    let mut seen = [false; 256];
    key.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    if seen.iter().filter(|seen| **seen).count() < DISTINCT_BYTES_MIN {
        return Err(KeyError::Weak);
    }
    Ok(())
}

/// The first bytes that the key makes of nothing under a fixed nonce. They tell nothing of the key,
/// and datagrams draw their nonces from 192 bits, so this one never seals anything else.
fn name_of(key: &[u8; 32]) -> (KeyId, XChaCha20Poly1305) {
    let cipher = XChaCha20Poly1305::new(key.into());
    let nonce = XNonce::from([0xff; 24]);
    let sealed = cipher.encrypt(&nonce, [0u8; 4].as_slice()).unwrap_or_default();
    let id = sealed.iter().take(4).fold(0, |id, byte| (id << 8) | u32::from(*byte));
    (KeyId(id), cipher)
}
