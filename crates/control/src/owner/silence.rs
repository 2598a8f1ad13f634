//! Workers of which nothing is heard (R26).
//!
//! Whoever cannot renew its leases is lost for its owner, whatever gossip says of it; and whoever
//! renews anywhere is not, even if its owner does not reach it. Managers tell the owner of every
//! renewal that they grant. FrameBatch, answers and what a worker tells are signs of life as well.
//!
//! A silence may cause a revoke, and nothing else: what proves that the attempt has stopped is
//! another matter (R4).

use std::time::Duration;

use fence::{Attempt, BootId, Moment, NodeId, ShardKey};

use super::Owner;
use super::attempt::{AttemptState, Life};
use super::shard::Shard;

/// An owner that was not asked anything for so long stood still itself, and judges nobody by that.
const STOOD_STILL: Duration = Duration::from_secs(1);

impl Owner {
    /// A manager has granted these.
    pub(super) fn renewed(
        &mut self,
        worker: NodeId,
        boot: BootId,
        attempts: &[(ShardKey, Attempt)],
    ) {
        self.liveness.heard(worker, self.time.now());
        self.shards.renewed((worker, boot), attempts, self.time.now());
    }

    /// A worker has said something, about whatever.
    pub(super) fn heard_from(&mut self, worker: NodeId) {
        self.liveness.heard(worker, self.time.now());
        self.shards.heard_from(worker, self.time.now());
    }

    /// Whether an attempt of this life was renewed, or heard of, so lately that membership must be
    /// wrong about it.
    pub(super) fn is_heard(&self, worker: NodeId, boot: BootId) -> bool {
        let last = self.shards.values().filter_map(Shard::current);
        let here = last.filter(|one| one.life() == (worker, boot));
        let mut lately = here.map(|one| self.time.now().since(one.alive) < one.lease.length() / 3);
        lately.any(|lately| lately)
    }

    /// This owner was stopped, or starved: what others have said meanwhile lay unread.
    pub(super) fn stood_still(&mut self, stood: Duration) {
        if stood < STOOD_STILL {
            return;
        }
        self.shards.stood_still(stood);
        self.liveness.stood_still(stood);
    }

    pub(super) fn look_at_silence(&mut self) {
        let silent = self.shards.out().filter(|one| one.silent_at() <= self.time.now());
        let lost: Vec<Life> = silent.map(AttemptState::life).collect();
        for (worker, boot) in lost {
            self.lose_worker(worker, boot, "renews its leases nowhere", None);
        }
    }

    /// When the first of them is silent for too long, if nothing is heard.
    pub(super) fn silence_due(&self) -> Option<Moment> {
        self.shards.out().map(AttemptState::silent_at).min()
    }
}
