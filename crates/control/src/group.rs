//! Which managers a worker obeys: the members of the ledger's group, as the managers themselves
//! state it over mutual TLS.
//!
//! A manager's certificate proves a role, not that its holder was ever admitted. So a worker asks
//! all managers that it can reach who the members are, and believes the statement that most of its
//! own members make. One stranger is outvoted by a group of two or more; where both sides are
//! equally many, what was believed before stays.

use std::collections::{BTreeMap, BTreeSet};

use fence::{GroupId, NodeId};

/// What one manager says of the group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    pub group: GroupId,
    pub members: BTreeSet<NodeId>,
}

/// The group as one worker knows it.
#[derive(Clone, Debug, Default)]
pub struct Group {
    believed: Option<Statement>,
}

impl Group {
    /// Whether this manager is a member; `None` as long as nothing is known.
    #[must_use]
    pub fn admits(&self, manager: NodeId) -> Option<bool> {
        self.believed.as_ref().map(|believed| believed.members.contains(&manager))
    }

    /// One round of answers, by who gave them. Says whether anything has changed. No answers change
    /// nothing.
    pub fn hear(&mut self, said: &BTreeMap<NodeId, Statement>) -> bool {
        let mut supporters: BTreeMap<&Statement, usize> = BTreeMap::new();
        for (speaker, statement) in said {
            // Nobody speaks for a group that it is not in.
            if statement.members.contains(speaker) {
                *supporters.entry(statement).or_default() += 1;
            }
        }
        let most = supporters.values().copied().max().unwrap_or_default();
        let mut best = supporters.iter().filter(|(_, count)| **count == most);
        let (Some((statement, _)), None) = (best.next(), best.next()) else { return false };
        let changed = self.believed.as_ref() != Some(*statement);
        if changed {
            self.believed = Some((*statement).clone());
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };

    fn states(members: &[u128]) -> Statement {
        let members = members.iter().map(|node| NodeId(*node)).collect();
        Statement { group: GROUP, members }
    }

    fn said(answers: &[(u128, &[u128])]) -> BTreeMap<NodeId, Statement> {
        answers.iter().map(|(node, members)| (NodeId(*node), states(members))).collect()
    }

    #[test]
    fn a_stranger_with_a_certificate_is_outvoted() {
        let mut group = Group::default();
        assert_eq!(group.admits(NodeId(1)), None);
        // It was there first.
        assert!(group.hear(&said(&[(9, &[9])])));
        assert_eq!(group.admits(NodeId(9)), Some(true));
        assert!(group.hear(&said(&[(1, &[1, 2, 3]), (2, &[1, 2, 3]), (9, &[9])])));
        assert_eq!((group.admits(NodeId(1)), group.admits(NodeId(9))), (Some(true), Some(false)));
        // One that names itself among the members of a group that does not know it gains nothing.
        let claims = said(&[(1, &[1, 2, 3]), (2, &[1, 2, 3]), (9, &[1, 2, 3, 9])]);
        assert!(!group.hear(&claims));
        assert_eq!(group.admits(NodeId(9)), Some(false));
    }

    #[test]
    fn what_was_believed_stays_where_nobody_answers_or_both_sides_are_equal() {
        let mut group = Group::default();
        group.hear(&said(&[(1, &[1, 2, 3]), (2, &[1, 2, 3])]));
        assert!(!group.hear(&BTreeMap::new()));
        assert!(!group.hear(&said(&[(3, &[1, 2, 3]), (9, &[9])])), "one against one");
        assert!(!group.hear(&said(&[(9, &[1, 2, 3])])), "it speaks for a group without itself");
        assert_eq!(group.admits(NodeId(2)), Some(true));
    }

    #[test]
    fn a_change_of_the_members_is_followed() {
        let mut group = Group::default();
        group.hear(&said(&[(1, &[1, 2, 3]), (2, &[1, 2, 3])]));
        assert!(group.hear(&said(&[(1, &[1, 2, 4]), (2, &[1, 2, 4]), (4, &[1, 2, 4])])));
        assert_eq!((group.admits(NodeId(3)), group.admits(NodeId(4))), (Some(false), Some(true)));
    }
}
