//! Since when the same managers vote.
//!
//! Between two changes of them there is time for jobs to write down their counts with the new ones: a checkpoint is on
//! a majority of the voters of its moment. That shares a member with every majority one change away, and need not share
//! one with a majority two changes away.

use std::collections::BTreeSet;
use std::time::Duration;

use fence::NodeId;
use tokio::time::Instant;

/// From one change of the voters to the next: owners write their checkpoint anew within two seconds, and who takes up
/// the job of a dead one has read it by then.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Since when the same managers vote, as far as this one has seen.
#[derive(Default)]
pub struct Voters {
    now: BTreeSet<NodeId>,
    since: Option<Instant>,
}

impl Voters {
    /// They are these now.
    pub fn are(&mut self, voters: BTreeSet<NodeId>) {
        if self.now != voters {
            (self.now, self.since) = (voters, Some(Instant::now()));
        }
    }

    /// How long the next change has to wait.
    pub fn unsettled(&self) -> Duration {
        self.since.map_or(SETTLED_AFTER, |since| SETTLED_AFTER.saturating_sub(since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u128) -> NodeId {
        NodeId(number)
    }

    /// Why one change needs no wait and two do: the sizes of majorities.
    #[test]
    fn majorities_one_change_apart_share_a_member() {
        let majority = |voters: usize| voters / 2 + 1;
        for voters in 1..50 {
            assert!(majority(voters) + majority(voters + 1) > voters + 1, "{voters}");
        }
        // One out and one in: two of the old three and two of the new three.
        assert!(majority(3) + majority(3) <= 4);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_change_waits_until_the_last_one_is_written_down() {
        let mut voters = Voters::default();
        assert_eq!(voters.unsettled(), SETTLED_AFTER);
        voters.are(BTreeSet::from([node(1), node(2)]));
        tokio::time::advance(Duration::from_secs(4)).await;
        voters.are(BTreeSet::from([node(2), node(1)]));
        assert_eq!(voters.unsettled(), SETTLED_AFTER - Duration::from_secs(4));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(voters.unsettled().is_zero());
        voters.are(BTreeSet::from([node(1), node(3)]));
        assert_eq!(voters.unsettled(), SETTLED_AFTER);
    }
}
