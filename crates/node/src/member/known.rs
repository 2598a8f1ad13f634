//! What has been said of nodes, so that a lost data folder can be told to its owner.
//!
//! The node table knows the boot of every member. It does not know the number of a data folder, and it forgets; this
//! remembers both, from hellos and exchanges, and across restarts through the file of remembered peers.

use std::collections::BTreeMap;

use fence::{BootId, NodeId};

/// What is known of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) boot: BootId,
    /// 0 if nobody has said.
    pub(crate) folder: u64,
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

    /// What contradicts this claim: a later boot, or another folder. `in_table` is the boot that the node table has.
    pub(crate) fn contradicts(
        &self,
        node: NodeId,
        said: Known,
        in_table: Option<BootId>,
    ) -> Option<Known> {
        let known = self.nodes.get(&node).copied().unwrap_or_default();
        let boot = known.boot.max(in_table.unwrap_or_default());
        let other_folder = said.folder != 0 && known.folder != 0 && said.folder != known.folder;
        (boot > said.boot || other_folder).then_some(Known { boot, folder: known.folder })
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
        Known { boot: BootId(boot), folder }
    }

    /// A lost data folder shows as a lower boot, or as another folder even if the boots are equal.
    #[test]
    fn a_lost_folder_is_seen_by_its_boot_or_its_number() {
        let mut nodes = KnownNodes::new(8);
        assert_eq!(nodes.contradicts(NODE, said(1, 10), None), None, "a stranger");
        nodes.note(NODE, said(1, 10));
        assert_eq!(nodes.contradicts(NODE, said(1, 10), Some(BootId(1))), None);
        assert_eq!(nodes.contradicts(NODE, said(2, 10), Some(BootId(1))), None, "a restart");
        assert_eq!(nodes.contradicts(NODE, said(1, 11), None), Some(said(1, 10)), "equal boots");
        assert_eq!(nodes.contradicts(NODE, said(9, 11), None), Some(said(1, 10)), "later boots");
        assert_eq!(nodes.contradicts(NODE, said(1, 10), Some(BootId(4))), Some(said(4, 10)));
        assert_eq!(
            nodes.contradicts(NODE, said(4, 0), Some(BootId(4))),
            None,
            "no number: a manager"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut nodes = KnownNodes::new(2);
        (1..=3).for_each(|node| nodes.note(NodeId(node), said(1, 1)));
        assert_eq!(nodes.get(NodeId(1)), None);
        assert_eq!(nodes.get(NodeId(3)), Some(said(1, 1)));
    }
}
