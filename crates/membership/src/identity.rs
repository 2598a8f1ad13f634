//! Who a member is: a node, the life it is in, and where it can be reached.
//!
//! Everything outside this crate is keyed on [`NodeId`]. The address, the boot and the generation
//! may change under it: a pod comes back with another address, a process restarts, a member that
//! was declared dead by mistake renews itself.

use std::fmt;
use std::net::SocketAddr;

use fence::{BootId, NodeId};
use serde::{Deserialize, Serialize};
use trust::Role;

/// One life of one member.
///
/// `boot` rises with every start and is kept on disk, `generation` rises whenever the member has to
/// outlive a false report of its own death within a boot. The pair orders lives: a later life
/// always replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Peer {
    pub node: NodeId,
    pub role: Role,
    pub address: SocketAddr,
    pub boot: BootId,
    pub generation: u32,
}

impl Peer {
    /// Orders the lives of one node.
    #[must_use]
    pub fn life(&self) -> Life {
        Life { boot: self.boot, generation: self.generation }
    }
}

/// Which life of a node is meant. Ordered: boot first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Life {
    pub boot: BootId,
    pub generation: u32,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} at {} (boot {}.{})",
            self.role, self.node, self.address, self.boot, self.generation
        )
    }
}

impl foca::Identity for Peer {
    /// The node, not the socket address: two lives of a node are the same member wherever they run.
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        self.generation.checked_add(1).map(|generation| Self { generation, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.life() > adversary.life()
    }
}
