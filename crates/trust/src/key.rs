//! Ed25519 keys: how they are drawn, and how they are written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};

/// PKCS #8 around an Ed25519 seed (RFC 8410): sequence of 46 bytes, version 0, algorithm
/// 1.3.101.112 ...
const PKCS8_VERSION_1: [u8; 12] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70];
/// ... and the seed: 34 bytes holding 32.
const SEED_HEADER: [u8; 4] = [4, 0x22, 4, 0x20];
/// What stands before the 32 bytes of a public key in its `SubjectPublicKeyInfo`.
const PUBLIC_HEADER: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    pub why: String,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for KeyError {}

/// A key that was made here and whose certificate is signed elsewhere
/// ([`crate::DevCa::issue_for`]).
pub struct FreshKey {
    /// The private key in PEM.
    pub private: String,
    /// `SubjectPublicKeyInfo` in DER: all that leaves this machine.
    pub public: Vec<u8>,
}

impl FreshKey {
    /// # Errors
    /// If the operating system has no random bytes.
    pub fn draw() -> Result<Self, KeyError> {
        let key = draw()?;
        Ok(Self { private: private_pem(&key)?, public: key.subject_public_key_info() })
    }
}

pub(crate) fn draw() -> Result<KeyPair, KeyError> {
    KeyPair::generate_for(&PKCS_ED25519).map_err(|error| KeyError { why: error.to_string() })
}

pub(crate) fn is_public(der: &[u8]) -> bool {
    der.len() == PUBLIC_HEADER.len() + 32 && der.starts_with(&PUBLIC_HEADER)
}

pub(crate) fn seed(key: &KeyPair) -> Result<[u8; 32], KeyError> {
    let der = key.serialize_der();
    let found = der.windows(SEED_HEADER.len()).position(|window| window == SEED_HEADER);
    found
        .and_then(|at| der.get(at + SEED_HEADER.len()..)?.first_chunk().copied())
        .ok_or_else(|| KeyError { why: "the new key is not an Ed25519 key".into() })
}

pub(crate) fn pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    [&PKCS8_VERSION_1[..], &SEED_HEADER[..], seed].concat()
}

/// The private key in PEM, as PKCS #8 version 1.
///
/// Version 2, which the key generator gives, adds the public key, and OpenSSL 3.0 cannot read that.
/// The seed is the same.
pub(crate) fn private_pem(key: &KeyPair) -> Result<String, KeyError> {
    // 48 bytes are exactly one line of 64 characters.
    let line = STANDARD.encode(pkcs8(&seed(key)?));
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n"))
}
