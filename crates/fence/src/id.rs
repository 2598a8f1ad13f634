//! Who and what: nodes, their starts, jobs, and the unit of execution.
//!
//! An address is never an identity. A `NodeId` is drawn once and kept in the node's data folder;
//! its `BootId` is kept beside it and rises with every start, so that "the same node" and "the same
//! life of that node" are two questions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdError {
    kind: &'static str,
    text: String,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, text } = self;
        write!(f, "`{text}` is not a {kind} id (32 hexadecimal digits, with or without hyphens)")
    }
}

impl std::error::Error for IdError {}

/// Reads 32 hexadecimal digits; hyphens may stand anywhere, as in a UUID.
fn parse(kind: &'static str, text: &str) -> Result<u128, IdError> {
    let error = || IdError { kind, text: text.chars().take(64).collect() };
    // A UUID has 36 characters; what is much longer is not worth copying.
    if text.len() > 64 {
        return Err(error());
    }
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(error());
    }
    u128::from_str_radix(&digits, 16).map_err(|_| error())
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let n = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    (n >> 96) as u32, (n >> 80) as u16, (n >> 64) as u16, (n >> 48) as u16, n & 0xffff_ffff_ffff
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{:08x}", $kind, (self.0 >> 96) as u32)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse($kind, text).map(Self)
            }
        }
    };
}

wide_id!(
    /// A node, for as long as its data folder lives.
    NodeId,
    "node"
);

/// Small numbers for tests and for openraft's own suite, which counts its nodes.
impl From<u64> for NodeId {
    fn from(number: u64) -> Self {
        Self(u128::from(number))
    }
}

wide_id!(
    /// A job. It is a function of the tenant and the idempotency key, so the same submission has
    /// the same id everywhere.
    JobId,
    "job"
);

/// One life of a node: rises with every start, kept in the data folder.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct BootId(pub u64);

impl BootId {
    /// The life after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A workflow by its place in the plan.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkflowNo(pub u32);

/// What is executed at one place at a time: one core's share of one workflow of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardKey {
    pub job: JobId,
    pub workflow: WorkflowNo,
    pub shard: u32,
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.job, self.workflow.0, self.shard)
    }
}
