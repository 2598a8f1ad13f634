//! Cores one by one: for retries, for setups, and for what an owner before has left.

use super::manifest::WhenNoneLeft;
use super::shard::{Place, Step};
use super::wave::Kind;
use super::{Owner, Sid};
use crate::pool::Worker;

impl Owner {
    pub(super) fn seat_stragglers(&mut self) {
        let Some(wave) = &self.wave else { return };
        for sid in wave.members.clone() {
            let Some(shard) = self.shards.get(&sid) else { continue };
            let ready = shard.again.is_none_or(|at| at <= self.now) && shard.place.is_none();
            match shard.step {
                Step::Idle if ready => self.seat_one(sid),
                Step::Unsent if ready => self.seat_again(sid),
                _ => {}
            }
        }
    }

    /// An attempt that was committed but never dispatched: the same worker, if it still has a core (X45).
    fn seat_again(&mut self, sid: Sid) {
        let Some(one) = self.shards.get(&sid).and_then(|shard| shard.current()) else { return };
        let (node, boot) = (one.worker, one.boot);
        match self.pool.get(node).copied() {
            Some(worker) if worker.boot == boot && worker.takes_work() => {
                self.reserve_for(sid, &worker);
            }
            // A verdict is a hint and takes nothing away (R6). What is not ready in its time goes elsewhere anyway.
            Some(worker) if worker.boot == boot && worker.live && !worker.draining => {
                self.seat_later(sid);
            }
            _ => self.lose(sid, "its worker is gone or draining", None),
        }
    }

    fn reserve_for(&mut self, sid: Sid, worker: &Worker) {
        let number = self.reserve(worker, 1, vec![sid]);
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.place =
                Some(Place { worker: worker.node, boot: worker.boot, hold: Some(number) });
            shard.seatings = shard.seatings.saturating_add(1);
        }
        self.changed();
    }

    pub(super) fn seat_later(&mut self, sid: Sid) {
        let seatings = self.shards.get(&sid).map_or(0, |shard| shard.seatings);
        let at = self.backoff(seatings);
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.place = None;
            shard.again = Some(at);
        }
        self.changed();
    }

    fn seat_one(&mut self, sid: Sid) {
        if !self.has_turn(1) {
            return;
        }
        self.ask_anew();
        let Some(shard) = self.shards.get(&sid) else { return };
        let failed_on = shard.failed_on.clone();
        let works: Vec<Worker> = self.pool.workers().filter(|w| w.takes_work()).copied().collect();
        let last_failure = |worker: &Worker| {
            failed_on.iter().rposition(|seat| *seat == (worker.node, worker.boot))
        };
        let (mut eligible, mut tried): (Vec<Worker>, Vec<Worker>) =
            works.iter().partition(|worker| last_failure(worker).is_none());
        if eligible.is_empty()
            && !tried.is_empty()
            && self.manifest.policy.when_none_left == WhenNoneLeft::Fail
        {
            let text = format!("it failed on every worker there is ({})", works.len());
            return self.give_up(sid, text);
        }
        if let Some(worker) = self.slot(&eligible) {
            return self.reserve_for(sid, &worker);
        }
        // G-10, X44: the one on which it failed longest ago. That worker lives, so the attempt was taken from it for a
        // freeze, a cut or a full disk; a free core of it is worth more than waiting for another.
        tried.sort_by_key(last_failure);
        if let Some(worker) = tried.iter().find_map(|worker| self.slot(&[*worker])) {
            return self.reserve_for(sid, &worker);
        }
        eligible.extend(tried);
        if let Some(worker) = self.survivor(sid, &eligible) {
            if let Some(shard) = self.shards.get_mut(&sid) {
                shard.place = Some(Place { worker: worker.node, boot: worker.boot, hold: None });
                shard.step = Step::Seated;
            }
            return self.changed();
        }
        let (free, total) = (self.pool.free(), self.pool.total());
        let aside = self.set_aside();
        let why = match works.len() {
            0 => format!("there are no workers{aside}"),
            _ => format!("1 core is needed, {free} of {total} are free{aside}"),
        };
        self.say_queued(1, free, total, why);
        self.ask_for_room();
        self.seat_later(sid);
    }

    /// A worker with a free core; one with whom something is odd only if there is no other.
    fn slot(&mut self, workers: &[Worker]) -> Option<Worker> {
        let [slots, odd] = self.pool.slots(workers);
        let slots = if slots.is_empty() { odd } else { slots };
        (!slots.is_empty()).then(|| slots[self.dice.index(slots.len())])
    }

    /// R14: a worker that runs other shards of the same workflow, the one with the fewest of them; one with whom
    /// something is odd only if there is no other.
    fn survivor(&self, sid: Sid, eligible: &[Worker]) -> Option<Worker> {
        let wave = self.wave.as_ref().filter(|wave| wave.kind == Kind::Load)?;
        let runs_here = |worker: &Worker| {
            let here = wave.members.iter().filter(|other| other.0 == sid.0 && **other != sid);
            let here = here.filter_map(|other| self.shards.get(other)).filter(|other| {
                let on = other
                    .current()
                    .is_some_and(|t| (t.worker, t.boot) == (worker.node, worker.boot));
                other.is_out() && on
            });
            here.count()
        };
        let counted = eligible.iter().map(|worker| (runs_here(worker), *worker));
        let running = counted.filter(|(count, _)| *count > 0);
        let fewest = running.min_by_key(|(count, worker)| (worker.routing, *count, worker.node));
        fewest.map(|(_, worker)| worker)
    }
}
