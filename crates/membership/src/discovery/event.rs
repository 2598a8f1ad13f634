//! What goes into the machine of discovery, and what comes out of it.

use std::net::SocketAddr;
use std::time::Duration;

use fence::{GroupId, NodeId};
use trust::Refusal;

use super::{Answer, Hello, LookupError, Question};

/// One probe; late answers to earlier ones are told apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId(pub u64);

/// Why a probe brought no hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeFailure {
    Unreachable {
        why: String,
    },
    /// Somebody answered whom we refuse, or who refuses us.
    Refused(Refusal),
}

/// What happens to the machine.
#[derive(Clone, Debug)]
pub enum Event {
    Start,
    Tick,
    Resolved {
        question: Question,
        result: Result<Answer, LookupError>,
    },
    Answered {
        probe: ProbeId,
        hello: Hello,
    },
    ProbeFailed {
        probe: ProbeId,
        why: ProbeFailure,
    },
    JoinAcknowledged {
        node: NodeId,
    },
    JoinFailed {
        node: NodeId,
        why: String,
    },
    /// The node table has a live member, found by us or by others.
    MemberUp {
        node: NodeId,
        address: SocketAddr,
    },
    MemberGone {
        node: NodeId,
    },
    /// This node was admitted to a group, or has founded one.
    Grouped {
        group: GroupId,
    },
}

/// What the shell shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Resolve(Question),
    Probe { probe: ProbeId, address: SocketAddr },
    Cancel(ProbeId),
    Join(Box<Hello>),
    Notice(Notice),
}

/// What an operator should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The first peer; `after` counts from the start.
    Joined {
        node: NodeId,
        after: Duration,
    },
    /// Already joined, and now with somebody whom membership did not know.
    Merged {
        node: NodeId,
    },
    /// The last member is gone; the search begins again.
    AloneAgain,
    /// A node that was known came back elsewhere.
    Moved {
        node: NodeId,
        from: SocketAddr,
        to: SocketAddr,
    },
    Refused {
        address: SocketAddr,
        refusal: Refusal,
    },
    /// The same cluster by name, and another Raft group: never joined. See [`super::formation`].
    OtherGroup {
        address: SocketAddr,
        ours: GroupId,
        theirs: GroupId,
    },
    JoinFailed {
        node: NodeId,
        why: String,
    },
    LookupFailed {
        question: Question,
        why: LookupError,
    },
    /// More addresses than there is room for.
    LeftOut {
        addresses: usize,
    },
    GaveUp {
        after: Duration,
    },
}

/// Where the search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Initial,
    /// Nothing is configured to look for; the node serves and can be found.
    Unconfigured,
    Resolving,
    Probing,
    Backoff,
    Joined,
    /// For good; only where a time to give up is set.
    Failed,
}

/// For metrics (CORE-135).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lookups: u64,
    pub lookups_failed: u64,
    pub lookups_timed_out: u64,
    pub cache_hits: u64,
    pub negative_cache_hits: u64,
    pub probes: u64,
    pub probes_answered: u64,
    pub probes_timed_out: u64,
    pub probes_failed: u64,
    pub refused: u64,
    pub rounds_failed: u64,
    pub joins: u64,
    pub joins_failed: u64,
}
