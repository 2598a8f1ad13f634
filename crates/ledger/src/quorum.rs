//! Majorities of the configured voters.
//!
//! The configured set counts, never the members that happen to be alive. While the set changes
//! there are two of it, and a decision needs a majority of each.

use std::collections::BTreeSet;

use fence::NodeId;
use fence::canary::{Canary, active};

/// How many of `voters` are a majority.
#[must_use]
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// Whether `me` and the others who said yes are a majority of every set. Only configured voters
/// count, each of them once.
#[must_use]
pub fn reached(configs: &[BTreeSet<NodeId>], me: NodeId, yes: &BTreeSet<NodeId>) -> bool {
    !configs.is_empty()
        && configs.iter().all(|voters| {
            let mut count = voters.iter().filter(|id| **id == me || yes.contains(id)).count();
            if active(Canary::QuorumCountsSelfTwice) && voters.contains(&me) {
                count += 1;
            }
            count >= majority(voters.len())
        })
}

/// Whether these, whoever they are, are a majority of every set.
#[must_use]
pub fn reached_by(configs: &[BTreeSet<NodeId>], yes: &BTreeSet<NodeId>) -> bool {
    let enough = |voters: &BTreeSet<NodeId>| {
        voters.iter().filter(|id| yes.contains(id)).count() >= majority(voters.len())
    };
    !configs.is_empty() && configs.iter().all(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u128]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    /// CORE-9
    #[test]
    fn a_majority_is_of_the_configured_size() {
        for (voters, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)] {
            assert_eq!(majority(voters), needed, "{voters} voters");
        }
    }

    /// CORE-9, CORE-10: with and without a majority, self counted once, joint sets each for itself.
    #[test]
    fn a_majority_is_reached_in_every_set() {
        type Case<'a> = (&'a [&'a [u128]], &'a [u128], bool, &'a str);
        let cases: [Case<'_>; 12] = [
            (&[&[1]], &[], true, "alone"),
            (&[&[1, 2, 3]], &[], false, "one of three"),
            (&[&[1, 2, 3]], &[1], false, "self is not counted twice"),
            (&[&[1, 2, 3]], &[2], true, "two of three"),
            (&[&[1, 2]], &[], false, "one of two"),
            (&[&[1, 2, 3, 4]], &[2], false, "half of four"),
            (&[&[1, 2, 3, 4, 5]], &[2, 3], true, "three of five"),
            (&[&[1, 2, 3]], &[8, 9], false, "strangers do not count"),
            (&[&[2, 3, 4]], &[2], false, "not a voter oneself"),
            (&[&[1, 2, 3], &[3, 4, 5]], &[2], false, "joint: only the old set"),
            (&[&[1, 2, 3], &[1, 4, 5]], &[2, 4], true, "joint: both"),
            (&[], &[2, 3], false, "no voters at all"),
        ];
        for (configs, yes, expected, name) in cases {
            let configs: Vec<_> = configs.iter().map(|ids| set(ids)).collect();
            assert_eq!(reached(&configs, NodeId(1), &set(yes)), expected, "{name}");
        }
    }
}
