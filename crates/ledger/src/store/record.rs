//! What the Raft log is made of, in our own words: no type of the consensus library is stored.
//!
//! Every payload in the write-ahead log begins with a version byte; the rest is postcard. So a
//! newer consensus library, or a newer program, can tell an old record from one that it must not
//! guess at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fence::NodeId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::types::{Batch, Member};

/// The version that is written. Older ones are read as long as they are named in `body`.
pub const VERSION: u8 = 3;

/// A leader: the term that it won, and who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leader {
    pub term: u64,
    pub node: NodeId,
}

/// A place in the replicated log. Ordered by leader, then by index, as the consensus orders them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub leader: Leader,
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (term {})", self.index, self.leader.term)
    }
}

/// A vote: for whom, and whether a quorum has given it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    pub leader: Leader,
    pub committed: bool,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leader { term, node } = self.leader;
        let how = if self.committed { "elected" } else { "voted for" };
        write!(f, "{how} {node} in term {term}")
    }
}

/// Who votes, who learns, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// One set of voters; two while the membership changes.
    pub configs: Vec<BTreeSet<NodeId>>,
    /// Everybody, voters and learners.
    pub nodes: BTreeMap<NodeId, Member>,
}

/// The membership that was last applied, and where it stands in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersAt {
    pub at: Option<Position>,
    pub members: Members,
}

/// What one entry of the log says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Content {
    Blank,
    Commands(Batch),
    Members(Members),
}

/// An entry as it is kept: the content stays encoded until somebody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub position: Position,
    pub content: Arc<[u8]>,
}

impl Stored {
    pub fn new(position: Position, content: &Content) -> Result<Self, RecordError> {
        Ok(Self { position, content: encode(content)?.into() })
    }

    pub fn decode(&self) -> Result<Content, RecordError> {
        body(&self.content)
    }
}

/// What must outlive the entries before it: written when the beginning of the log is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub purged: Option<Position>,
    pub vote: Option<Ballot>,
    pub committed: Option<Position>,
}

/// One record of the write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Entry(Stored),
    /// The entries from here on were replaced by another leader's.
    Truncate {
        from: u64,
    },
    Base(Base),
    Vote(Ballot),
    Committed(Position),
}

/// The record kinds of the write-ahead log.
pub mod kind {
    pub const ENTRY: u8 = 1;
    pub const TRUNCATE: u8 = 2;
    pub const BASE: u8 = 3;
    pub const VOTE: u8 = 4;
    pub const COMMITTED: u8 = 5;
}

/// A record that this program cannot read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    Empty,
    /// Written by a newer program.
    Version {
        found: u8,
    },
    Kind {
        found: u8,
    },
    Malformed {
        what: String,
    },
    /// Bytes follow the end of the value.
    Trailing {
        bytes: usize,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the record is empty"),
            Self::Version { found } => write!(
                f,
                "the record has format version {found}, this program reads {VERSION}: use the program that wrote it"
            ),
            Self::Kind { found } => write!(f, "record kind {found} is not known to this program"),
            Self::Malformed { what } => write!(f, "the record cannot be decoded: {what}"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow the end of the record"),
        }
    }
}

impl std::error::Error for RecordError {}

impl From<postcard::Error> for RecordError {
    fn from(error: postcard::Error) -> Self {
        Self::Malformed { what: error.to_string() }
    }
}

impl Record {
    /// The kind and the payload, as the write-ahead log takes them.
    pub fn to_wal(&self) -> Result<(u8, Vec<u8>), RecordError> {
        Ok(match self {
            Self::Entry(stored) => {
                let mut bytes = Vec::with_capacity(stored.content.len() + 40);
                bytes.push(VERSION);
                let mut bytes = postcard::to_extend(&stored.position, bytes)?;
                bytes.extend_from_slice(&stored.content);
                (kind::ENTRY, bytes)
            }
            Self::Truncate { from } => (kind::TRUNCATE, encode(from)?),
            Self::Base(base) => (kind::BASE, encode(base)?),
            Self::Vote(ballot) => (kind::VOTE, encode(ballot)?),
            Self::Committed(position) => (kind::COMMITTED, encode(position)?),
        })
    }

    pub fn from_wal(kind: u8, bytes: &[u8]) -> Result<Self, RecordError> {
        Ok(match kind {
            kind::ENTRY => {
                let (position, content) = postcard::take_from_bytes(versioned(bytes)?)?;
                Self::Entry(Stored { position, content: content.into() })
            }
            kind::TRUNCATE => Self::Truncate { from: body(bytes)? },
            kind::BASE => Self::Base(body(bytes)?),
            kind::VOTE => Self::Vote(body(bytes)?),
            kind::COMMITTED => Self::Committed(body(bytes)?),
            found => return Err(RecordError::Kind { found }),
        })
    }
}

/// Version byte and postcard.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, RecordError> {
    Ok(postcard::to_extend(value, vec![VERSION])?)
}

/// The value behind a version byte; nothing may follow it.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let (value, rest) = postcard::take_from_bytes(versioned(bytes)?)?;
    if rest.is_empty() { Ok(value) } else { Err(RecordError::Trailing { bytes: rest.len() }) }
}

fn versioned(bytes: &[u8]) -> Result<&[u8], RecordError> {
    match bytes.split_first() {
        None => Err(RecordError::Empty),
        Some((&VERSION, rest)) => Ok(rest),
        Some((&found, _)) => Err(RecordError::Version { found }),
    }
}
