//! Hooks for whoever watches a node from inside its process: a simulator that checks what may never
//! happen.

use fence::NodeId;
use ledger_state::{BlobRef, Reply, RequestId};

/// What happens on a node, told at the moment. Implementations must not block.
pub trait Observer: Send + Sync + 'static {
    /// Whether [`Observer::applied`] is wanted; the digest costs a walk over the state.
    fn wants_digests(&self) -> bool {
        false
    }

    /// The state after some entry. Not every index is told: entries that were applied together are
    /// told once.
    fn applied(&self, _node: NodeId, _index: u64, _digest: u64) {}

    /// The node leads under this vote.
    fn became_leader(&self, _node: NodeId, _term: u64) {}

    /// A caller on this node is about to be told that its request is committed.
    fn acknowledged(&self, _node: NodeId, _request: RequestId, _reply: &Reply) {}

    /// A caller on this node is about to be told that a blob lies on a majority.
    fn blob_acknowledged(&self, _node: NodeId, _blob: &BlobRef) {}
}

/// Nobody watches.
pub struct Nobody;

impl Observer for Nobody {}
