//! Who should own a job: a preference that spreads jobs over the live members and moves few of them
//! when members come and go (R7). A preference only; the right to act is an epoch.

use base::random::mix;
use fence::{JobId, NodeId};

/// The preferred owner, by rendezvous hashing: the member with the highest weight for this job; of
/// equals the highest id.
///
/// Every member computes the same answer from the same list, in whatever order it is. When a member
/// leaves, only its jobs move; when one joins, it takes its share and nothing else moves.
#[must_use]
pub fn preferred_owner(job: JobId, live: &[NodeId]) -> Option<NodeId> {
    live.iter().copied().max_by_key(|node| (weight(job, *node), *node))
}

/// The hash is part of the contract between members and never changes: the 64-bit words job high,
/// job low, node high, node low, each xored in and mixed by the finaliser of splitmix64.
fn weight(job: JobId, node: NodeId) -> u64 {
    [(job.0 >> 64) as u64, job.0 as u64, (node.0 >> 64) as u64, node.0 as u64]
        .into_iter()
        .fold(0, |hash, word| mix(hash ^ word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> impl Iterator<Item = JobId> {
        (0..20_000u128).map(|n| JobId(n << 64 | n))
    }

    fn nodes(count: u128) -> Vec<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    /// R7: the same answer whatever the order of the list; pinned, because members of different
    /// versions must agree.
    #[test]
    fn the_preference_is_stable() {
        let forward = nodes(7);
        let backward: Vec<NodeId> = forward.iter().rev().copied().collect();
        for job in jobs().take(1_000) {
            assert_eq!(preferred_owner(job, &forward), preferred_owner(job, &backward));
        }
        assert_eq!(weight(JobId(1), NodeId(2)), 0xbedb_5bf1_cd5e_c111);
        assert_eq!(preferred_owner(JobId(1), &[]), None);
    }

    /// R7: jobs spread evenly, within 20 %.
    #[test]
    fn every_member_gets_its_share() {
        for count in [2, 3, 5, 9] {
            let live = nodes(count);
            let share = 20_000 / live.len();
            for node in &live {
                let owned =
                    jobs().filter(|job| preferred_owner(*job, &live) == Some(*node)).count();
                assert!(
                    owned.abs_diff(share) * 5 <= share,
                    "{owned} of {share} with {count} members"
                );
            }
        }
    }

    /// R7: losing an owner moves only its jobs; a new one takes only its share.
    #[test]
    fn only_the_share_of_who_comes_or_goes_moves() {
        let before = nodes(5);
        let lost = before[2];
        let after: Vec<NodeId> = before.iter().copied().filter(|node| *node != lost).collect();
        let mut moved = 0;
        for job in jobs() {
            let (old, new) = (preferred_owner(job, &before), preferred_owner(job, &after));
            if old == Some(lost) {
                moved += 1;
                assert_ne!(new, old);
            } else {
                assert_eq!(new, old);
            }
        }
        assert!((3_200..=4_800).contains(&moved), "a fifth of 20,000 should move, {moved} did");
    }
}
