//! How much room workers have, asked of themselves.
//!
//! A heartbeat may be seconds old when it is read: a core that was busy when it was written may have been free again
//! for long. Whoever finds no room by the heartbeats therefore asks, and does not wait for the next ones.

use fence::NodeId;

use super::shard::Step;
use super::wave::WaveStep;
use super::{Errand, Owner};
use crate::message::Holdings;

/// Workers that one job asks at a time; in a large fleet a part of it, drawn anew each time.
const ASKED_MAX: usize = 32;

impl Owner {
    /// Asks those that seem to have cores which are not free.
    pub(super) fn ask_for_room(&mut self) {
        let on_the_way = |node: NodeId| {
            let same = |(errand, _, _): &(Errand, u32, NodeId)| *errand == Errand::Room(node);
            self.errands.values().any(same)
        };
        let mut nodes: Vec<NodeId> = self
            .pool
            .workers()
            .filter(|worker| worker.takes_work() && self.pool.free_on(worker.node) < worker.total)
            .map(|worker| worker.node)
            .filter(|node| !on_the_way(*node))
            .collect();
        self.dice.shuffle(&mut nodes);
        nodes.into_iter().take(ASKED_MAX).for_each(|node| self.send(Errand::Room(node)));
    }

    /// Its own word counts more than a heartbeat. If it has more room than was thought, nothing waits any longer.
    pub(super) fn room_heard(&mut self, node: NodeId, holdings: &Holdings) {
        if self.pool.get(node).is_none_or(|worker| worker.boot != holdings.boot) {
            self.counts.late += 1;
            return;
        }
        let before = self.pool.free_on(node);
        self.pool.correct(node, holdings.cores_free, holdings.cores);
        if holdings.draining {
            self.pool.set_draining(node);
        }
        if self.pool.free_on(node) <= before {
            return;
        }
        if let Some(wave) = &mut self.wave
            && wave.step == WaveStep::Seating(None)
        {
            wave.again = None;
        }
        for shard in self.shards.values_mut().filter(|shard| shard.step == Step::Idle) {
            shard.again = None;
        }
        self.changed();
    }
}
