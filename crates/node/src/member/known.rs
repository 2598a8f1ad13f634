//! What has been said of nodes, so that a lost data folder can be told to its owner.
//!
//! The node table knows the boot of every member, by gossip, which proves nothing. This remembers
//! what nodes have said of themselves over mutual TLS, in hellos and exchanges, and across restarts
//! through the file of remembered peers.

use std::collections::BTreeMap;

use fence::{BootId, NodeId};

use crate::wire::Introduction;

/// What is known of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) boot: BootId,
    /// 0 if nobody has said.
    pub(crate) folder: u64,
    /// Of a manager; 0 if nobody has said.
    pub(crate) disk: u64,
}

impl Known {
    /// What a node says of itself.
    pub(crate) fn of(introduction: &Introduction) -> Self {
        let Introduction { hello, folder, disk, .. } = introduction;
        Self { boot: hello.boot, folder: *folder, disk: *disk }
    }

    /// Whether a node that says this has other data than the one that is `known`. A folder never
    /// changes its number. A manager's disk may, by a later boot: its ledger has lost its log and
    /// is admitted anew. In the same life it cannot.
    pub(crate) fn is_elsewhere(&self, known: &Self) -> bool {
        let differ = |said: u64, known: u64| said != 0 && known != 0 && said != known;
        differ(self.folder, known.folder)
            || (differ(self.disk, known.disk) && self.boot <= known.boot)
    }
}

/// Bounded by the size of the membership.
#[derive(Debug)]
pub(crate) struct KnownNodes {
    nodes: BTreeMap<NodeId, Known>,
    max: usize,
}

impl KnownNodes {
    pub(crate) fn new(max: usize) -> Self {
        Self { nodes: BTreeMap::new(), max }
    }

    /// What contradicts this claim: a later boot, or another folder. The boot that the node table
    /// has does not count: it comes by gossip, which proves nothing (R26).
    pub(crate) fn contradicts(&self, node: NodeId, said: Known) -> Option<Known> {
        let known = self.nodes.get(&node).copied().unwrap_or_default();
        (known.boot > said.boot || said.is_elsewhere(&known)).then_some(known)
    }

    /// Takes note of what a node said of itself, after it was found not to contradict.
    pub(crate) fn note(&mut self, node: NodeId, said: Known) {
        if self.nodes.len() >= self.max && !self.nodes.contains_key(&node) {
            self.nodes.pop_first();
        }
        let known = self.nodes.entry(node).or_default();
        known.boot = known.boot.max(said.boot);
        if said.folder != 0 {
            known.folder = said.folder;
        }
        if said.disk != 0 {
            known.disk = said.disk;
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<Known> {
        self.nodes.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    fn said(boot: u64, folder: u64) -> Known {
        Known { boot: BootId(boot), folder, disk: 0 }
    }

    /// A lost data folder shows as a lower boot, or as another folder even if the boots are equal.
    #[test]
    fn a_lost_folder_is_seen_by_its_boot_or_its_number() {
        let mut nodes = KnownNodes::new(8);
        assert_eq!(nodes.contradicts(NODE, said(1, 10)), None, "a stranger");
        nodes.note(NODE, said(1, 10));
        assert_eq!(nodes.contradicts(NODE, said(1, 10)), None);
        assert_eq!(nodes.contradicts(NODE, said(2, 10)), None, "a restart");
        assert_eq!(nodes.contradicts(NODE, said(1, 11)), Some(said(1, 10)), "equal boots");
        assert_eq!(nodes.contradicts(NODE, said(9, 11)), Some(said(1, 10)), "later boots");
        nodes.note(NODE, said(4, 10));
        assert_eq!(nodes.contradicts(NODE, said(1, 10)), Some(said(4, 10)));
        assert_eq!(nodes.contradicts(NODE, said(4, 0)), None, "no number");
    }

    /// A manager has no folder of its own but its ledger's disk. A second disk in the same life is
    /// a lost one; in a later life it is one that the ledger was given anew.
    #[test]
    fn a_managers_disk_may_change_with_a_later_boot_only() {
        let of_disk = |boot, disk| Known { disk, ..said(boot, 0) };
        let mut nodes = KnownNodes::new(8);
        nodes.note(NODE, of_disk(3, 50));
        assert_eq!(nodes.contradicts(NODE, of_disk(3, 50)), None);
        assert_eq!(nodes.contradicts(NODE, of_disk(3, 51)), Some(of_disk(3, 50)));
        assert_eq!(nodes.contradicts(NODE, of_disk(4, 51)), None);
        nodes.note(NODE, of_disk(4, 51));
        assert_eq!(nodes.contradicts(NODE, of_disk(4, 50)), Some(of_disk(4, 51)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut nodes = KnownNodes::new(2);
        (1..=3).for_each(|node| nodes.note(NodeId(node), said(1, 1)));
        assert_eq!(nodes.get(NodeId(1)), None);
        assert_eq!(nodes.get(NodeId(3)), Some(said(1, 1)));
    }
}
