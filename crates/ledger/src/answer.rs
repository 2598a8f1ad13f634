//! What a caller is told: three-valued writes, reads, and why not.

use std::fmt;

use fence::{Epoch, NodeId};
use ledger_state::{Reply, RequestId};
use serde::{Deserialize, Serialize};

/// Where the leader is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    pub node: NodeId,
    pub address: String,
}

/// The result of a write. A timeout is never "failed": it is unknown until a retry resolves it
/// (LEDG-69).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// In the log for ever; this is what the state machine answered, and where the command stands.
    Committed { reply: Reply, epoch: Epoch },
    /// Proved never to happen: nothing was appended anywhere.
    NotCommitted(NotCommitted),
    /// It may be committed, or may still be, or not. `Node::retry` resolves it, and never runs it
    /// twice.
    Unknown(RequestId),
}

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotCommitted {
    /// This node does not lead; perhaps that one does.
    NotLeader {
        leader: Option<Redirect>,
    },
    /// Nobody is known to lead, and the deadline has passed.
    NoLeader,
    /// The leader has lost its majority.
    NoQuorum,
    /// More waits than may: count, bytes, or this node's open requests.
    Overloaded {
        what: Overload,
    },
    TooLarge {
        bytes: u64,
        limit: u64,
    },
    /// The deadline passed before anything was sent.
    Deadline,
    /// The ledger has closed this node's session; it starts a new one when it is restarted.
    SessionClosed,
    /// The node is shutting down, or has failed.
    Stopped(String),
    /// A member refused the message, by this name.
    Refused(String),
    /// The leader's disk is almost full: no new jobs; those that are there can still end.
    NoSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overload {
    QueueCount,
    QueueBytes,
    OpenRequests,
}

impl NotCommitted {
    /// The name under which it is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotLeader { .. } => "not_leader",
            Self::NoLeader => "no_leader",
            Self::NoQuorum => "no_quorum",
            Self::Overloaded { .. } => "overloaded",
            Self::TooLarge { .. } => "too_large",
            Self::Deadline => "deadline",
            Self::SessionClosed => "session_closed",
            Self::Stopped(_) => "stopped",
            Self::Refused(_) => "refused",
            Self::NoSpace => "no_space",
        }
    }
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader { leader: Some(leader) } => {
                write!(f, "this node does not lead; ask {} at {}", leader.node, leader.address)
            }
            Self::NotLeader { leader: None } | Self::NoLeader => {
                f.write_str("nobody leads at the moment; try again")
            }
            Self::NoQuorum => f.write_str("the leader cannot reach a majority; try again"),
            Self::Overloaded { what } => {
                let what = match what {
                    Overload::QueueCount => "too many proposals wait",
                    Overload::QueueBytes => "too many bytes of proposals wait",
                    Overload::OpenRequests => "too many requests of this node have no answer yet",
                };
                write!(f, "{what}; try again later")
            }
            Self::TooLarge { bytes, limit } => write!(
                f,
                "the command has {bytes} bytes, at most {limit} are taken; put large things beside the log"
            ),
            Self::Deadline => f.write_str("the deadline passed before anything was sent"),
            Self::SessionClosed => f.write_str("the node's session was closed; restart the node"),
            Self::Stopped(why) => write!(f, "the node has stopped: {why}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::NoSpace => f.write_str(
                "the leader's disk is almost full and takes no new jobs: make room, it goes on by itself",
            ),
        }
    }
}

impl std::error::Error for NotCommitted {}

/// What the leader answers to one try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Committed { reply: Reply, epoch: Epoch },
    Not(NotCommitted),
    Unknown,
}

/// How fresh a read has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// From this node as it is, however far behind.
    Eventual,
    /// Sees every write that was acknowledged anywhere before the read began.
    Strong,
}

/// What was read, and how fresh it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<T> {
    pub value: T,
    /// The last entry that the state contains.
    pub applied: u64,
    /// Entries that this node has, and has not applied yet.
    pub lag: u64,
}

/// Why there is no answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    NoLeader,
    /// This node leads, or believes so, and has no majority.
    NoQuorum,
    Deadline,
    Stopped(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLeader => f.write_str("nobody leads at the moment; try again"),
            Self::NoQuorum => f.write_str("the leader cannot reach a majority; try again"),
            Self::Deadline => f.write_str("no confirmation within the deadline"),
            Self::Stopped(why) => write!(f, "the node has stopped: {why}"),
        }
    }
}

impl std::error::Error for ReadError {}
