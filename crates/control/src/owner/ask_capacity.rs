//! How many cores are free on workers, asked of themselves.
//!
//! A heartbeat may be seconds old when it is read: a core that was busy when it was written may
//! have been free again for long. Whoever finds no free cores by the heartbeats therefore asks, and
//! does not wait for the next ones.

use fence::NodeId;

use super::Owner;
use super::calls::Call;
use super::shard::Step;
use super::stages::WaveStep;
use crate::message::WorkerInventory;

/// Workers that one job asks at a time; in a large fleet a part of it, drawn anew each time.
const ASKED_MAX: usize = 32;

impl Owner {
    /// Asks those that seem to have cores which are not free.
    pub(super) fn ask_for_capacity(&mut self) {
        let calls = self.outgoing.calls();
        let on_the_way = |node: NodeId| calls.is_under_way(&Call::Capacity(node));
        let nodes = self.capacity.seemingly_busy(on_the_way);
        nodes.into_iter().take(ASKED_MAX).for_each(|node| self.send(Call::Capacity(node)));
    }

    /// Its own answer counts more than a heartbeat. If it has more free cores than was thought,
    /// nothing waits any longer.
    pub(super) fn capacity_heard(&mut self, node: NodeId, holdings: &WorkerInventory) {
        if self.capacity.pool().get(node).is_none_or(|worker| worker.boot != holdings.boot) {
            self.journal.count_late();
            return;
        }
        let before = self.capacity.pool().free_on(node);
        self.capacity.correct(node, holdings.cores_free, holdings.cores);
        if holdings.draining {
            self.capacity.set_draining(node);
        }
        if self.capacity.pool().free_on(node) <= before {
            return;
        }
        if let Some(wave) = self.stages.wave_mut()
            && wave.step == WaveStep::Reserving(None)
        {
            wave.retry_at = None;
        }
        for shard in self.shards.values_mut().filter(|shard| shard.step == Step::Idle) {
            shard.placing.retry_at = None;
        }
        self.outgoing.changed();
    }
}
