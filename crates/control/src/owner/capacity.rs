//! The cores of the fleet as this job sees them: what there is, what it has reserved, whether it is
//! its turn, and why it waits if it does.

use std::time::Duration;

use fence::{BootId, Moment, NodeId};

use super::reservations::{Left, Reservation, Reservations};
use super::{Numbers, Queued, Settings, Sid};
use crate::pool::{Pool, Worker};
use base::random::SplitMix64;

/// After this time heartbeats are believed again rather than what a worker had answered.
const HINTS_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct Capacity {
    pool: Pool,
    /// For choices that nobody should foresee.
    random: SplitMix64,
    /// When the pool was last what the workers' heartbeats say.
    hinted: Moment,
    /// How many cores the fleet has, and since when it has that many.
    cores: (u32, Moment),
    /// Whether it is this job's turn to take cores; `None` until that is known.
    turn: Option<bool>,
    /// Why nothing runs, as it was last said.
    queued: Option<Queued>,
    reservations: Reservations,
}

impl Capacity {
    pub fn new(workers: Vec<Worker>, seed: u64, now: Moment) -> Self {
        Self {
            pool: Pool::new(workers),
            random: SplitMix64::new(seed),
            hinted: now,
            cores: (0, now),
            turn: None,
            queued: None,
            reservations: Reservations::default(),
        }
    }

    // ── the workers ────────────────────────────────────────────────────────────────────────────

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What membership and heartbeats say now.
    pub fn see(&mut self, workers: Vec<Worker>, now: Moment) {
        self.pool.see(workers);
        self.hinted = now;
        if self.cores.0 != self.pool.total() {
            self.cores = (self.pool.total(), now);
        }
    }

    /// What a worker said when it was asked does not hold for ever.
    pub fn refresh(&mut self, now: Moment) {
        if now.since(self.hinted) >= HINTS_AFTER {
            self.hinted = now;
            self.pool.believe_hints();
        }
    }

    /// Since when the fleet has as many cores as it has.
    pub fn steady_since(&self) -> Moment {
        self.cores.1
    }

    /// A worker's own answer on how many cores it has.
    pub fn correct(&mut self, node: NodeId, free: u32, total: u32) {
        self.pool.correct(node, free, total);
    }

    pub fn set_draining(&mut self, node: NodeId) {
        self.pool.set_draining(node);
    }

    pub fn set_disk_full(&mut self, node: NodeId) {
        self.pool.set_disk_full(node);
    }

    /// No more is asked of a worker before it is heard of again.
    pub fn shun(&mut self, node: NodeId) {
        if let Some(total) = self.pool.get(node).map(|worker| worker.total) {
            self.pool.correct(node, 0, total);
        }
    }

    /// An attempt that had a core of its own has ended.
    pub fn returned(&mut self, node: NodeId) {
        self.pool.returned(node, 1);
    }

    /// Workers that are there and are given nothing, for whoever wonders what a job waits for.
    pub fn set_aside(&self) -> String {
        let full: Vec<NodeId> = self.pool.disk_full().collect();
        let mut text = match full.as_slice() {
            [] => String::new(),
            [node] => format!("; the disk of worker {node} is full"),
            more => format!("; the disks of {} workers are full", more.len()),
        };
        text.push_str(&match self.pool.set_aside() - full.len() {
            0 => String::new(),
            1 => "; 1 worker gets nothing new, `volley status` says why".to_owned(),
            more => format!("; {more} workers get nothing new, `volley status` says why"),
        });
        text
    }

    // ── choices ────────────────────────────────────────────────────────────────────────────────

    /// So many free cores, by the workers that have them; `None` if there are too few.
    pub fn draw(&mut self, cores: usize) -> Option<Vec<NodeId>> {
        self.pool.draw(cores, &mut self.random)
    }

    /// One of these workers with a free core; one with whom something is odd only if there is no
    /// other.
    pub fn slot(&mut self, workers: &[Worker]) -> Option<Worker> {
        let [slots, odd] = self.pool.slots(workers);
        let slots = if slots.is_empty() { odd } else { slots };
        (!slots.is_empty()).then(|| slots[self.random.index(slots.len())])
    }

    /// Workers that seem to have cores which are not free, in no order that anybody could foresee.
    pub fn seemingly_busy(&mut self, but_not: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let busy =
            |worker: &&Worker| worker.takes_work() && self.pool.free_on(worker.node) < worker.total;
        let nodes = self.pool.workers().filter(busy).map(|worker| worker.node);
        let mut nodes: Vec<NodeId> = nodes.filter(|node| !but_not(*node)).collect();
        self.random.shuffle(&mut nodes);
        nodes
    }

    /// When to try again: after twice the time of the try before, with some jitter so that jobs do
    /// not meet again and again.
    pub fn backoff(&mut self, retries: u32, settings: &Settings, now: Moment) -> Moment {
        let wait = settings.again.saturating_mul(1 << retries.min(10));
        let wait = wait.min(settings.again_most);
        let jitter = usize::try_from(wait.as_millis() / 4).unwrap_or(0) + 1;
        now.after(wait + Duration::from_millis(self.random.below(jitter as u64)))
    }

    // ── the queue ──────────────────────────────────────────────────────────────────────────────

    pub fn set_turn(&mut self, turn: bool) {
        self.turn = Some(turn);
    }

    pub fn turn(&self) -> Option<bool> {
        self.turn
    }

    pub fn queued(&self) -> Option<&Queued> {
        self.queued.as_ref()
    }

    /// The job waits for so many cores. `None`: that was said already.
    pub fn wait_for(&mut self, needs: u32, numbers: Numbers, why: String) -> Option<Queued> {
        let (free, total) = (self.pool.free(), self.pool.total());
        let queued = Queued { needs, free, total, why, numbers };
        if self.queued.as_ref() == Some(&queued) {
            return None;
        }
        self.queued = Some(queued.clone());
        Some(queued)
    }

    /// The job goes on. Says whether it had waited.
    pub fn go_on(&mut self) -> bool {
        self.queued.take().is_some()
    }

    // ── reservations ───────────────────────────────────────────────────────────────────────────

    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Cores of a worker are asked for. Says under which number.
    pub fn reserve(&mut self, on: &Worker, cores: u32, shards: Vec<Sid>, renew: Moment) -> u32 {
        self.pool.asked(on.node, cores);
        self.reservations.add((on.node, on.boot), cores, shards, renew)
    }

    pub fn assign(&mut self, number: u32, sid: Sid) {
        self.reservations.assign(number, sid);
    }

    /// A worker has granted a reservation, or renewed it, or refused to; `None`: it was given up.
    pub fn answered(&mut self, number: u32, granted: bool) -> Option<Reservation> {
        let known = self.reservations.get(number)?.clone();
        let renewed = self.reservations.answered(number, granted);
        if !renewed {
            self.pool.answered(known.worker, known.cores, granted);
        }
        Some(known)
    }

    /// Gives up what is left of a reservation.
    pub fn release(&mut self, number: u32) -> Option<(NodeId, BootId)> {
        let one = self.reservations.remove(number)?;
        if !one.is_granted() {
            self.pool.answered(one.worker, one.cores, false);
        }
        Some((one.worker, one.boot))
    }

    pub fn leave(&mut self, number: u32, sid: Sid, dispatched: bool) -> Left {
        self.reservations.leave(number, sid, dispatched)
    }

    pub fn renew_due(&mut self, now: Moment, next: Moment) -> Vec<u32> {
        self.reservations.renew_due(now, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::Routing;

    fn worker(node: u128, total: u32, free: u32) -> Worker {
        let (node, boot, routing) = (NodeId(node), BootId(1), Routing::Route);
        Worker { node, boot, total, free, draining: false, disk_full: false, live: true, routing }
    }

    fn capacity(workers: Vec<Worker>) -> Capacity {
        Capacity::new(workers, 1, Moment::default())
    }

    fn at(ms: u64) -> Moment {
        Moment::default().after(Duration::from_millis(ms))
    }

    #[test]
    fn cores_that_were_asked_for_are_not_free_whether_they_are_granted_or_not_until_refused() {
        let on = worker(1, 8, 5);
        // What the worker answers, and how many cores are free then.
        for (granted, then) in [(true, 3), (false, 5)] {
            let mut capacity = capacity(vec![on]);
            let number = capacity.reserve(&on, 2, Vec::new(), at(0));
            assert_eq!(capacity.pool().free(), 3);
            let known = capacity.answered(number, granted).unwrap();
            assert_eq!((known.worker, known.cores), (NodeId(1), 2));
            assert_eq!(capacity.pool().free(), then, "granted: {granted}");
        }
    }

    #[test]
    fn a_renewal_takes_no_cores_a_second_time() {
        let on = worker(1, 8, 5);
        let mut capacity = capacity(vec![on]);
        let number = capacity.reserve(&on, 2, Vec::new(), at(0));
        capacity.answered(number, true);
        capacity.answered(number, true);
        assert_eq!(capacity.pool().free(), 3);
    }

    #[test]
    fn what_is_released_before_its_answer_is_free_at_once_and_its_answer_says_nothing() {
        let on = worker(1, 8, 5);
        let mut capacity = capacity(vec![on]);
        let number = capacity.reserve(&on, 2, Vec::new(), at(0));
        assert_eq!(capacity.release(number), Some((NodeId(1), BootId(1))));
        assert_eq!(capacity.pool().free(), 5);
        assert!(capacity.answered(number, true).is_none());
        assert_eq!(capacity.release(number), None);
    }

    #[test]
    fn a_wait_is_said_when_it_is_new_or_other_than_before() {
        let mut capacity = capacity(vec![worker(1, 8, 5)]);
        assert!(!capacity.go_on());
        let said = capacity.wait_for(9, Numbers::Apart, "too few".to_owned()).unwrap();
        assert_eq!((said.needs, said.free, said.total), (9, 5, 8));
        assert_eq!(capacity.wait_for(9, Numbers::Apart, "too few".to_owned()), None);
        assert!(capacity.wait_for(9, Numbers::Apart, "older jobs wait".to_owned()).is_some());
        assert!(capacity.go_on() && !capacity.go_on());
    }

    #[test]
    fn the_fleet_is_steady_from_the_heartbeat_that_changed_its_size() {
        let mut capacity = capacity(Vec::new());
        capacity.see(vec![worker(1, 8, 8)], at(100));
        capacity.see(vec![worker(1, 8, 2)], at(200));
        assert_eq!(capacity.steady_since(), at(100));
        capacity.see(vec![worker(1, 8, 2), worker(2, 4, 4)], at(300));
        assert_eq!(capacity.steady_since(), at(300));
    }

    #[test]
    fn a_shunned_worker_is_asked_again_when_its_heartbeats_are_believed_again() {
        let mut capacity = capacity(vec![worker(1, 8, 5)]);
        capacity.shun(NodeId(1));
        assert_eq!(capacity.pool().free(), 0);
        capacity.refresh(at(1_999));
        assert_eq!(capacity.pool().free(), 0);
        capacity.refresh(at(2_000));
        assert_eq!(capacity.pool().free(), 5);
    }

    #[test]
    fn each_wait_is_twice_as_long_up_to_the_most_with_a_quarter_of_jitter() {
        let settings = Settings::default();
        let mut capacity = capacity(Vec::new());
        for (retries, ms) in [(0, 300), (1, 600), (3, 2_400), (9, 5_000), (40, 5_000)] {
            for _ in 0..20 {
                let wait = capacity.backoff(retries, &settings, at(0)).since(at(0));
                let least = Duration::from_millis(ms);
                assert!(wait >= least && wait <= least + least / 4, "{retries}: {wait:?}");
            }
        }
    }
}
