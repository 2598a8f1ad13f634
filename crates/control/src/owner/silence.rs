//! Workers of which nothing is heard (R26).
//!
//! Whoever cannot renew its leases is lost for its owner, whatever gossip says of it; and whoever renews anywhere is
//! not, even if its owner does not reach it. Managers tell the owner of every renewal that they grant. Frames,
//! answers and what a worker tells are signs of life as well.
//!
//! A silence may cause a revoke, and nothing else: what proves that the attempt has stopped is another matter (R4).

use std::time::Duration;

use fence::{Attempt, BootId, Moment, NodeId, ShardKey};

use super::shard::{Shard, Try};
use super::{Owner, Sid};

/// An owner that was not asked anything for so long stood still itself, and judges nobody by that.
const STOOD_STILL: Duration = Duration::from_secs(1);

impl Try {
    /// Three renewals are missed by then, and the lease has a quarter of its time left.
    fn silent_at(&self) -> Moment {
        self.alive.after(self.lease.length() * 3 / 4)
    }
}

impl Owner {
    /// A manager has granted these.
    pub(super) fn renewed(
        &mut self,
        worker: NodeId,
        boot: BootId,
        attempts: &[(ShardKey, Attempt)],
    ) {
        let now = self.now;
        self.doubts.end(worker, now);
        for (key, attempt) in attempts.iter().filter(|(key, _)| key.job == self.id) {
            let shard = self.shards.get_mut(&(key.workflow.0, key.shard));
            let one = shard.and_then(|shard| shard.attempt_mut(*attempt));
            if let Some(one) = one.filter(|one| (one.worker, one.boot) == (worker, boot)) {
                one.alive = one.alive.max(now);
            }
        }
    }

    /// A worker has said something, about whatever.
    pub(super) fn heard_from(&mut self, worker: NodeId) {
        let now = self.now;
        self.doubts.end(worker, now);
        for shard in self.shards.values_mut() {
            if let Some(one) = shard.tries.last_mut().filter(|one| one.worker == worker) {
                one.alive = one.alive.max(now);
            }
        }
    }

    /// Whether an attempt of this life was renewed, or heard of, so lately that membership must be wrong about it.
    pub(super) fn is_heard(&self, worker: NodeId, boot: BootId) -> bool {
        let here = |one: &&Try| (one.worker, one.boot) == (worker, boot);
        let tries = self.shards.values().filter_map(Shard::current).filter(here);
        let mut lately = tries.map(|one| self.now.since(one.alive) < one.lease.length() / 3);
        lately.any(|lately| lately)
    }

    /// This owner was stopped, or starved: what others have said meanwhile lies unread.
    pub(super) fn stood_still(&mut self, before: Moment) {
        let stood = self.now.since(before);
        if stood < STOOD_STILL {
            return;
        }
        for one in self.shards.values_mut().filter_map(|shard| shard.tries.last_mut()) {
            one.alive = one.alive.after(stood);
        }
        self.doubts.stood_still(stood);
    }

    pub(super) fn look_at_silence(&mut self) {
        let now = self.now;
        let silent = |(_, shard): &(&Sid, &Shard)| {
            shard.is_out() && shard.current().is_some_and(|one| one.silent_at() <= now)
        };
        let lost: Vec<(NodeId, BootId)> = self
            .shards
            .iter()
            .filter(silent)
            .filter_map(|(_, shard)| shard.current().map(|one| (one.worker, one.boot)))
            .collect();
        for (worker, boot) in lost {
            self.lose_worker(worker, boot, "renews its leases nowhere", None);
        }
    }

    /// When the first of them is silent for too long, if nothing is heard.
    pub(super) fn silence_due(&self) -> Option<Moment> {
        let out = self.shards.values().filter(|shard| shard.is_out());
        out.filter_map(|shard| shard.current().map(Try::silent_at)).min()
    }
}
