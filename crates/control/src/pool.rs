//! The workers of a datacenter as an owner sees them: hints from membership, corrected by what the
//! workers answer.
//!
//! Shares are computed from all cores of healthy workers (EXEC-60), room from the free ones.
//! Whether there is room is decided by the worker alone, when it is asked to reserve.

use base::random::SplitMix64;
use std::collections::BTreeMap;

use fence::{BootId, NodeId};

use super::routing::Routing;

/// What membership and heartbeats say of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    pub node: NodeId,
    pub boot: BootId,
    pub total: u32,
    pub free: u32,
    /// By its own word: what runs there ends; nothing new.
    pub draining: bool,
    /// By its own word: its disk has no room for anything new.
    pub disk_full: bool,
    /// Not declared dead.
    pub live: bool,
    /// What the manager thinks of it.
    pub routing: Routing,
}

impl Worker {
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.live && !self.draining && !self.disk_full && self.routing.takes_work()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    workers: BTreeMap<NodeId, Worker>,
    /// Cores that were asked for and not answered yet: no heartbeat can know of them.
    asked: BTreeMap<NodeId, u32>,
    /// Free and all cores of each by its last heartbeat, whatever was learned since.
    hints: BTreeMap<NodeId, (u32, u32)>,
}

impl Pool {
    #[must_use]
    pub fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let workers: BTreeMap<NodeId, Worker> =
            workers.into_iter().map(|worker| (worker.node, worker)).collect();
        let hints = workers.values().map(|worker| (worker.node, (worker.free, worker.total)));
        Self { hints: hints.collect(), workers, asked: BTreeMap::new() }
    }

    /// A newer view. A worker that is no longer in it is gone.
    pub fn see(&mut self, workers: impl IntoIterator<Item = Worker>) {
        let asked = std::mem::take(&mut self.asked);
        *self = Self { asked, ..Self::new(workers) };
    }

    /// A worker's own word on its room.
    pub fn correct(&mut self, node: NodeId, free: u32, total: u32) {
        if let Some(worker) = self.workers.get_mut(&node) {
            (worker.free, worker.total) = (free, total);
        }
    }

    /// What was learned since the last heartbeats is forgotten. A worker that was full and is free
    /// again sends the same heartbeat as before, and nobody is told of it.
    pub fn believe_hints(&mut self) {
        for worker in self.workers.values_mut() {
            if let Some((free, total)) = self.hints.get(&worker.node) {
                (worker.free, worker.total) = (*free, *total);
            }
        }
    }

    pub fn set_draining(&mut self, node: NodeId) {
        if let Some(worker) = self.workers.get_mut(&node) {
            worker.draining = true;
        }
    }

    pub fn set_disk_full(&mut self, node: NodeId) {
        if let Some(worker) = self.workers.get_mut(&node) {
            worker.disk_full = true;
        }
    }

    pub fn set_dead(&mut self, node: NodeId, boot: BootId) {
        if let Some(worker) = self.workers.get_mut(&node)
            && worker.boot <= boot
        {
            worker.live = false;
        }
    }

    pub fn asked(&mut self, node: NodeId, cores: u32) {
        *self.asked.entry(node).or_default() += cores;
    }

    /// The question was answered; `granted` cores are gone until a heartbeat says otherwise.
    pub fn answered(&mut self, node: NodeId, cores: u32, granted: bool) {
        if let Some(asked) = self.asked.get_mut(&node) {
            *asked = asked.saturating_sub(cores);
            if *asked == 0 {
                self.asked.remove(&node);
            }
        }
        if let Some(worker) = self.workers.get_mut(&node).filter(|_| granted) {
            worker.free = worker.free.saturating_sub(cores);
        }
    }

    /// Cores that are free again, before the next heartbeat says so.
    pub fn returned(&mut self, node: NodeId, cores: u32) {
        if let Some(worker) = self.workers.get_mut(&node) {
            worker.free = worker.free.saturating_add(cores).min(worker.total);
        }
    }

    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Worker> {
        self.workers.get(&node)
    }

    /// Whether this life of the worker is there.
    #[must_use]
    pub fn is_live(&self, node: NodeId, boot: BootId) -> bool {
        self.workers.get(&node).is_some_and(|worker| worker.live && worker.boot == boot)
    }

    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.workers.values()
    }

    /// EXEC-60: all cores of those that take work, busy or not.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.workers.values().filter(|worker| worker.takes_work()).map(|worker| worker.total).sum()
    }

    /// Cores that may be had of a worker, as far as is known here.
    #[must_use]
    pub fn free_on(&self, node: NodeId) -> u32 {
        let Some(worker) = self.workers.get(&node).filter(|worker| worker.takes_work()) else {
            return 0;
        };
        worker.free.saturating_sub(self.asked.get(&node).copied().unwrap_or(0))
    }

    /// Living workers that would take work and are given none, because something is wrong with
    /// them.
    #[must_use]
    pub fn set_aside(&self) -> usize {
        let is_aside = |w: &&Worker| w.live && !w.draining && !w.takes_work();
        self.workers.values().filter(is_aside).count()
    }

    /// Of these, the ones whose disk is full.
    pub fn disk_full(&self) -> impl Iterator<Item = NodeId> {
        let is_full = |w: &&Worker| w.live && !w.draining && w.disk_full;
        self.workers.values().filter(is_full).map(|worker| worker.node)
    }

    #[must_use]
    pub fn free(&self) -> u32 {
        self.workers.keys().map(|node| self.free_on(*node)).sum()
    }

    /// The free cores of these workers, one entry each: of the first choice, and of those with whom
    /// something is odd.
    pub fn slots<'a>(&self, of: impl IntoIterator<Item = &'a Worker>) -> [Vec<Worker>; 2] {
        let mut slots = [Vec::new(), Vec::new()];
        for worker in of {
            let free = self.free_on(worker.node) as usize;
            let tier = usize::from(worker.routing != Routing::Route);
            slots[tier].extend(std::iter::repeat_n(*worker, free));
        }
        slots
    }

    /// EXEC-92: so many cores, each drawn from all that are free; from those of the last choice
    /// only what the others have no room for (ARCH-72). `None` if there are too few.
    pub fn draw(&self, cores: usize, random: &mut SplitMix64) -> Option<Vec<NodeId>> {
        let [mut slots, mut odd] = self.slots(self.workers.values());
        if slots.len() + odd.len() < cores {
            return None;
        }
        random.shuffle(&mut slots);
        if slots.len() < cores {
            random.shuffle(&mut odd);
            slots.append(&mut odd);
        }
        slots.truncate(cores);
        let mut slots: Vec<NodeId> = slots.into_iter().map(|worker| worker.node).collect();
        // Shards next to each other on one worker: fewer messages, and a loss takes a run of them.
        slots.sort_unstable();
        Some(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(node: u128, total: u32, free: u32) -> Worker {
        let (node, boot, routing) = (NodeId(node), BootId(1), Routing::Route);
        Worker { node, boot, total, free, draining: false, disk_full: false, live: true, routing }
    }

    /// EXEC-60: draining and dead workers are not part of the pool; shares by 24, room by 10.
    #[test]
    fn shares_count_all_cores_and_room_the_free_ones() {
        let mut pool = Pool::new([worker(1, 8, 3), worker(2, 8, 7), worker(3, 8, 0)]);
        assert_eq!((pool.total(), pool.free()), (24, 10));
        pool.set_draining(NodeId(1));
        assert_eq!((pool.total(), pool.free()), (16, 7));
        pool.set_dead(NodeId(2), BootId(1));
        assert_eq!((pool.total(), pool.free()), (8, 0));
    }

    /// EXEC-92: every core has the same chance; what was asked for is not offered twice.
    #[test]
    fn cores_are_drawn_evenly() {
        let mut pool = Pool::new([worker(1, 8, 8), worker(2, 4, 4)]);
        let mut random = SplitMix64::new(7);
        let mut first = 0;
        for _ in 0..3_000 {
            first += pool.draw(1, &mut random).unwrap().iter().filter(|n| n.0 == 1).count();
        }
        assert!((1_900..2_100).contains(&first), "{first} of 3,000, two thirds were due");
        pool.asked(NodeId(1), 8);
        assert_eq!(pool.draw(4, &mut random).unwrap(), vec![NodeId(2); 4]);
        assert_eq!(pool.draw(5, &mut random), None);
        pool.answered(NodeId(1), 8, true);
        assert_eq!(pool.free_on(NodeId(1)), 0);
        pool.returned(NodeId(1), 1);
        assert_eq!(pool.free_on(NodeId(1)), 1);
        pool.returned(NodeId(1), 99);
        assert_eq!(pool.free_on(NodeId(1)), 8, "never more than there are");
        pool.answered(NodeId(1), 8, true);
        pool.believe_hints();
        assert_eq!(pool.free_on(NodeId(1)), 8);
    }

    /// ARCH-72, ARCH-136: odd workers get what the others have no room for, drained and evicted
    /// ones nothing.
    #[test]
    fn odd_workers_are_the_last_choice_and_drained_ones_none() {
        let with = |node, free, routing| Worker { routing, ..worker(node, 4, free) };
        let pool = Pool::new([
            with(1, 2, Routing::Route),
            with(2, 3, Routing::Investigate),
            with(3, 4, Routing::Drain),
            with(4, 4, Routing::Evict),
            with(5, 1, Routing::Route),
        ]);
        assert_eq!((pool.total(), pool.free(), pool.set_aside()), (12, 6, 2));
        let mut random = SplitMix64::new(7);
        for cores in 1..=6 {
            for _ in 0..100 {
                let drawn = pool.draw(cores, &mut random).unwrap();
                let on = |node: u128| drawn.iter().filter(|drawn| drawn.0 == node).count();
                assert_eq!(on(2), cores.saturating_sub(3), "{drawn:?}");
                assert_eq!((on(3), on(4)), (0, 0), "{drawn:?}");
            }
        }
        assert_eq!(pool.draw(7, &mut random), None);
    }
}
