//! Idempotency keys, and the job id that follows from one.
//!
//! The id of a job is a hash of (tenant, key). So there is one place in the ledger that can decide
//! about a key, whoever brings it and through whichever node: the job itself.

use std::fmt;
use std::str::FromStr;

use fence::JobId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::command::RequestId;

/// What makes two submissions the same one. Made by the client, kept by it until it has an answer.
///
/// As text: `client:sequence:nonce`, the nonce as 32 hexadecimal digits. The client may itself
/// contain colons (`host1.dc1:12345`); the text is read from the right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// At most [`IdempotencyKey::CLIENT_BYTES`].
    pub client: String,
    pub sequence: u64,
    pub nonce: [u8; 16],
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyProblem {
    /// The text does not have three parts.
    Parts,
    NoClient,
    ClientTooLong {
        bytes: u64,
    },
    /// Control characters would make the text form ambiguous to read.
    ControlCharacter,
    Sequence,
    Nonce,
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts => f.write_str("expected `client:sequence:nonce`"),
            Self::NoClient => f.write_str("the client before the first colon is empty"),
            Self::ClientTooLong { bytes } => write!(
                f,
                "the client has {bytes} bytes, at most {} are allowed",
                IdempotencyKey::CLIENT_BYTES
            ),
            Self::ControlCharacter => f.write_str("the client contains a control character"),
            Self::Sequence => f.write_str("the sequence is not a whole number from 0 to 2^64-1"),
            Self::Nonce => f.write_str("the nonce is not 32 hexadecimal digits"),
        }
    }
}

impl std::error::Error for KeyProblem {}

/// A text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    pub problem: KeyProblem,
    /// The text, shortened.
    text: String,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid idempotency key `{}`: {}", self.text, self.problem)
    }
}

impl std::error::Error for KeyError {}

impl IdempotencyKey {
    pub const CLIENT_BYTES: usize = 128;

    /// A key for a client that sent none. It differs for every request, so two such submissions are
    /// two jobs, while a proposal that is repeated inside the cluster is still one.
    #[must_use]
    pub fn of_request(request: RequestId) -> Self {
        let RequestId { session, seq } = request;
        Self {
            client: format!("request:{}:{}", session.node, session.boot),
            sequence: seq,
            nonce: [0; 16],
        }
    }

    /// Whether the parts are as they should be; a key from the wire was never text.
    pub fn validate(&self) -> Result<(), KeyProblem> {
        if self.client.is_empty() {
            return Err(KeyProblem::NoClient);
        }
        if self.client.len() > Self::CLIENT_BYTES {
            return Err(KeyProblem::ClientTooLong { bytes: self.client.len() as u64 });
        }
        if self.client.chars().any(char::is_control) {
            return Err(KeyProblem::ControlCharacter);
        }
        Ok(())
    }

    /// The job of this key: the first 128 bits of SHA-256 over (domain, tenant, client, sequence,
    /// nonce), the texts with their length before them so that no two keys run together.
    #[must_use]
    pub fn job_id(&self, tenant: &str) -> JobId {
        let mut hash = Sha256::new();
        hash.update(b"volley job id 1\0");
        for text in [tenant, &self.client] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        hash.update(self.sequence.to_be_bytes());
        hash.update(self.nonce);
        let digest = hash.finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        JobId(u128::from_be_bytes(first))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.client, self.sequence)?;
        self.nonce.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let error = |problem| KeyError { problem, text: text.chars().take(200).collect() };
        let mut parts = text.rsplitn(3, ':');
        let (Some(nonce), Some(sequence), Some(client)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(error(KeyProblem::Parts));
        };
        let key = Self {
            client: client.to_owned(),
            sequence: parse_sequence(sequence).ok_or_else(|| error(KeyProblem::Sequence))?,
            nonce: parse_nonce(nonce).ok_or_else(|| error(KeyProblem::Nonce))?,
        };
        key.validate().map_err(error)?;
        Ok(key)
    }
}

/// Digits only: `u64::from_str` would take a sign.
fn parse_sequence(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn parse_nonce(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}
