//! Cores one by one: for retries, for setups, and for what an owner before has left.

use super::manifest::WhenNoneLeft;
use super::shard::{Assignment, Step};
use super::{Numbers, Owner, Sid};
use crate::pool::Worker;

impl Owner {
    pub(super) fn place_stragglers(&mut self) {
        let Some(wave) = self.stages.wave() else { return };
        for sid in wave.members.clone() {
            let Some(shard) = self.shards.get(&sid) else { continue };
            let ready = shard.placing.retry_at.is_none_or(|at| at <= self.time.now())
                && shard.placing.assignment.is_none();
            match shard.step {
                Step::Idle if ready => self.place_one(sid),
                Step::Unsent if ready => self.place_again(sid),
                _ => {}
            }
        }
    }

    /// An attempt that was committed but never dispatched: it goes to the same worker, if that
    /// still has a core.
    fn place_again(&mut self, sid: Sid) {
        let Some(one) = self.shards.current(&sid) else { return };
        let (node, boot) = one.life();
        match self.capacity.pool().get(node).copied() {
            Some(worker) if worker.boot == boot && worker.takes_work() => {
                self.reserve_for(sid, &worker);
            }
            // A verdict is a hint and takes nothing away (R6). What is not ready in its time goes
            // elsewhere anyway.
            Some(worker) if worker.boot == boot && worker.live && !worker.draining => {
                self.place_later(sid);
            }
            _ => self.lose(sid, "its worker is gone or draining", None),
        }
    }

    fn reserve_for(&mut self, sid: Sid, worker: &Worker) {
        let number = self.reserve(worker, 1, vec![sid]);
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.placing.assignment = Some(Assignment {
                worker: worker.node,
                boot: worker.boot,
                reservation: Some(number),
            });
            shard.placing.tries = shard.placing.tries.saturating_add(1);
        }
        self.outgoing.changed();
    }

    pub(super) fn place_later(&mut self, sid: Sid) {
        let placements = self.shards.get(&sid).map_or(0, |shard| shard.placing.tries);
        let at = self.backoff(placements);
        if let Some(shard) = self.shards.get_mut(&sid) {
            shard.placing.assignment = None;
            shard.placing.retry_at = Some(at);
        }
        self.outgoing.changed();
    }

    fn place_one(&mut self, sid: Sid) {
        if !self.has_turn(1) {
            return;
        }
        self.capacity.refresh(self.time.now());
        let Some(shard) = self.shards.get(&sid) else { return };
        let failed_on = shard.placing.failed_on.clone();
        let works: Vec<Worker> =
            self.capacity.pool().workers().filter(|w| w.takes_work()).copied().collect();
        let last_failure = |worker: &Worker| {
            failed_on.iter().rposition(|seat| *seat == (worker.node, worker.boot))
        };
        let (mut eligible, mut tried): (Vec<Worker>, Vec<Worker>) =
            works.iter().partition(|worker| last_failure(worker).is_none());
        if eligible.is_empty()
            && !tried.is_empty()
            && self.spec.manifest().policy.when_none_left == WhenNoneLeft::Fail
        {
            let text = format!("it failed on every worker there is ({})", works.len());
            return self.give_up(sid, text);
        }
        if let Some(worker) = self.capacity.slot(&eligible) {
            return self.reserve_for(sid, &worker);
        }
        // The one on which it failed longest ago. That worker lives, so the attempt was taken from
        // it for a freeze, a cut or a full disk; a free core of it is worth more than waiting for
        // another.
        tried.sort_by_key(last_failure);
        if let Some(worker) = tried.iter().find_map(|worker| self.capacity.slot(&[*worker])) {
            return self.reserve_for(sid, &worker);
        }
        eligible.extend(tried);
        if let Some(worker) = self.survivor(sid, &eligible) {
            if let Some(shard) = self.shards.get_mut(&sid) {
                shard.placing.assignment =
                    Some(Assignment { worker: worker.node, boot: worker.boot, reservation: None });
                shard.step = Step::Placed;
            }
            return self.outgoing.changed();
        }
        let (free, total) = (self.capacity.pool().free(), self.capacity.pool().total());
        let aside = self.capacity.set_aside();
        let (numbers, why) = match works.len() {
            0 => {
                let waits = self.waits_how_long();
                (Numbers::Apart, format!("there are no workers{aside}; start one: {waits}"))
            }
            _ => {
                (Numbers::InReason, format!("1 core is needed, {free} of {total} are free{aside}"))
            }
        };
        self.say_queued(1, numbers, why);
        self.ask_for_capacity();
        self.place_later(sid);
    }

    /// R14: a worker that runs other shards of the same workflow, the one with the fewest of them;
    /// one with whom something is odd only if there is no other.
    fn survivor(&self, sid: Sid, eligible: &[Worker]) -> Option<Worker> {
        let wave = self.stages.load()?;
        let runs_here = |worker: &Worker| {
            let here = wave.members.iter().filter(|other| other.0 == sid.0 && **other != sid);
            let here = here.filter_map(|other| self.shards.get(other)).filter(|other| {
                let on = other.current().is_some_and(|t| t.life() == (worker.node, worker.boot));
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
