//! The whole state as bytes. Magic, length and checksum are the store's.

use std::fmt;

use sha2::{Digest, Sha256};

use super::State;

/// Raised when the meaning of the bytes changes; a state of another version is refused, never
/// guessed at.
const VERSION: u8 = 5;

/// Bytes that are not a state of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    Empty,
    /// Written by another version of the program.
    Version {
        found: u8,
    },
    Malformed(String),
    /// A whole state, and something after it.
    Trailing {
        bytes: usize,
    },
    /// It reads well and cannot be: no sequence of commands leads to it.
    Impossible(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the ledger's state is empty"),
            Self::Version { found } => write!(
                f,
                "the ledger's state has version {found}, this program knows {VERSION}; use the program that wrote it"
            ),
            Self::Malformed(why) => write!(f, "the ledger's state cannot be read: {why}"),
            Self::Trailing { bytes } => {
                write!(
                    f,
                    "{bytes} bytes follow the ledger's state; it was not written by this program"
                )
            }
            Self::Impossible(why) => write!(f, "the ledger's state breaks a promise: {why}"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl State {
    /// A version byte and the state in postcard.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Not a matter of luck: the state holds nothing that postcard cannot say, and a vector
        // takes any length.
        postcard::to_extend(self, vec![VERSION]).expect("the state has a form in postcard")
    }

    /// Reads what [`State::encode`] wrote. A state that breaks a promise is refused as damage is:
    /// to go on from it would spread what went wrong, and the other members, or an older snapshot
    /// and the log, have a whole one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (&version, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
        if version != VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let (mut state, rest): (Self, &[u8]) = postcard::take_from_bytes(body)
            .map_err(|error| DecodeError::Malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(DecodeError::Trailing { bytes: rest.len() });
        }
        state.limits.check().map_err(|bad| DecodeError::Impossible(bad.to_string()))?;
        state.derived = state.derive();
        state.check().map_err(|violation| DecodeError::Impossible(violation.to_string()))?;
        Ok(state)
    }

    /// For comparing members: equal states have equal digests, however they were reached. Reads the
    /// whole state.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let hash = Sha256::digest(self.encode());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        u64::from_be_bytes(first)
    }
}
