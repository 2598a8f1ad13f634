//! Where this node stands: what Raft says of itself, with the time at which it said so.
//!
//! openraft's leader stays leader for ever when it is cut off, and its numbers are as old as its
//! last report. Here the age of the last majority is counted on, so that a leader without one stops
//! claiming (check-quorum).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fence::NodeId;
use openraft::{RaftMetrics, ServerState};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::types::{DiskId, LogId, Member, StoredMembership, Vote};

#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub me: NodeId,
    pub vote: Vote,
    pub leading: bool,
    pub leader: Option<(NodeId, Member)>,
    /// When a majority last acknowledged, or when this node began to lead.
    pub acked: Option<Instant>,
    pub membership: Arc<StoredMembership>,
    pub last_log: Option<u64>,
    pub snapshot: Option<LogId>,
    /// Why Raft has stopped.
    pub stopped: Option<String>,
}

impl Standing {
    pub(crate) fn new(me: NodeId) -> Self {
        Self {
            me,
            vote: Vote::default(),
            leading: false,
            leader: None,
            acked: None,
            membership: Arc::default(),
            last_log: None,
            snapshot: None,
            stopped: None,
        }
    }

    /// The next standing, from a report that has just come.
    pub(crate) fn after(&self, report: &RaftMetrics<NodeId, Member>, now: Instant) -> Self {
        let leading = report.state == ServerState::Leader;
        let member = |id: NodeId| report.membership_config.membership().get_node(&id).cloned();
        let leader = report.current_leader.and_then(|id| Some((id, member(id)?)));
        let acked = match report.millis_since_quorum_ack {
            _ if !leading => None,
            Some(ms) => now.checked_sub(Duration::from_millis(ms)),
            // No majority yet: it has as long as any other silence from when it began to lead.
            None if self.leading && self.vote == report.vote => self.acked,
            None => Some(now),
        };
        Self {
            me: self.me,
            vote: report.vote,
            leading,
            leader,
            acked,
            membership: Arc::clone(&report.membership_config),
            last_log: report.last_log_index,
            snapshot: report.snapshot,
            stopped: report.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// Whether anything has changed but progress and time.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        self.vote != other.vote
            || self.leading != other.leading
            || self.leader != other.leader
            || self.membership.log_id() != other.membership.log_id()
            || self.stopped != other.stopped
    }

    pub(crate) fn configs(&self) -> Vec<BTreeSet<NodeId>> {
        self.membership.membership().get_joint_config().clone()
    }

    /// A change of the voters is half done: the old and the new ones decide together.
    pub(crate) fn is_changing(&self) -> bool {
        self.membership.membership().get_joint_config().len() > 1
    }

    pub(crate) fn is_voter(&self, node: NodeId) -> bool {
        self.membership.membership().get_joint_config().iter().any(|set| set.contains(&node))
    }

    pub(crate) fn member(&self, node: NodeId) -> Option<&Member> {
        self.membership.membership().get_node(&node)
    }

    /// This node leads, and a majority answered within `patience`.
    pub(crate) fn claims(&self, now: Instant, patience: Duration) -> bool {
        let configs = self.membership.membership().get_joint_config();
        let alone = configs.iter().all(|set| set.len() == 1 && set.contains(&self.me));
        self.leading
            && self.stopped.is_none()
            && (alone || self.acked.is_some_and(|acked| now.duration_since(acked) < patience))
    }

    /// Of the voters and their disks.
    pub(crate) fn voters_digest(&self) -> u64 {
        let sets = self.membership.membership().get_joint_config();
        let disks = |id: &NodeId| self.member(*id).map_or(DiskId::default(), |member| member.disk);
        let mut hash = Sha256::new();
        for set in sets {
            hash.update((set.len() as u64).to_be_bytes());
            for id in set {
                hash.update(id.0.to_be_bytes());
                hash.update(disks(id).0.to_be_bytes());
            }
        }
        first_eight(&hash.finalize())
    }
}

/// The first eight bytes of a hash as a number.
pub(crate) fn first_eight(hash: &[u8]) -> u64 {
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::Membership;

    fn standing(voters: &[u128], acked: Option<Instant>) -> Standing {
        let set: BTreeSet<NodeId> = voters.iter().copied().map(NodeId).collect();
        let nodes: std::collections::BTreeMap<NodeId, Member> = set
            .iter()
            .map(|id| (*id, Member { address: String::new(), disk: DiskId(1) }))
            .collect();
        let membership = StoredMembership::new(None, Membership::new(vec![set], nodes));
        Standing {
            leading: true,
            acked,
            membership: Arc::new(membership),
            ..Standing::new(NodeId(1))
        }
    }

    /// CORE-10: check-quorum. A leader that no majority has answered for an election timeout stops
    /// claiming.
    #[test]
    fn a_leader_without_a_majority_stops_claiming() {
        let now = Instant::now();
        let patience = Duration::from_millis(600);
        let three = standing(&[1, 2, 3], Some(now));
        assert!(three.claims(now + Duration::from_millis(599), patience));
        assert!(!three.claims(now + Duration::from_millis(600), patience));
        assert!(!standing(&[1, 2, 3], None).claims(now, patience));
        assert!(standing(&[1], None).claims(now, patience), "alone it is its own majority");
        let follower = Standing { leading: false, ..standing(&[1], None) };
        assert!(!follower.claims(now, patience));
        let stopped = Standing { stopped: Some("disk".to_owned()), ..standing(&[1], None) };
        assert!(!stopped.claims(now, patience));
    }

    #[test]
    fn the_digest_knows_voters_and_disks() {
        let three = standing(&[1, 2, 3], None);
        assert_eq!(three.voters_digest(), standing(&[3, 2, 1], None).voters_digest());
        assert_ne!(three.voters_digest(), standing(&[1, 2, 4], None).voters_digest());
        assert_ne!(three.voters_digest(), standing(&[1, 2], None).voters_digest());
    }
}
