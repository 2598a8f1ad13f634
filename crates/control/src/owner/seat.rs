//! Cores: reserved on workers in two phases, all of a wave or none, and given up when they are not needed (X16).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::{Moment, NodeId, OrderRefusal};

use super::shard::{Place, Step};
use super::wave::{Seating, WaveStep};
use super::{Errand, Held, Owner, Sid};
use crate::message::{Answer, Hold, Refused};
use crate::pool::Worker;
use schedule::allocation;

/// After this time heartbeats are believed again rather than what a worker had answered.
const HINTS_AFTER: Duration = Duration::from_secs(2);

impl Owner {
    /// Asks for all cores of a batch. Shares come from the whole pool, room from what is free (S7).
    pub(super) fn seat_wave(&mut self) {
        let waits = self.wave.as_ref().and_then(|wave| wave.again).is_some_and(|at| at > self.now);
        if waits || !self.fits() {
            return;
        }
        self.ask_anew();
        let Some(batch) = &self.batch else { return };
        let total = self.pool.total();
        let candidates: Vec<_> =
            batch.workflows.iter().map(|w| self.manifest.candidate(*w)).collect();
        let grants = allocation::partition(&candidates, total as usize);
        let mut plan = Vec::new();
        for grant in grants.into_iter().next().unwrap_or_default() {
            if let Some(number) = self.manifest.number(&grant.name) {
                plan.push((number, u32::try_from(grant.cores).unwrap_or(u32::MAX)));
            }
        }
        // The pool may have shrunk since the batch was formed; the rest of it is a batch of its own then.
        let now_running: BTreeSet<usize> = plan.iter().map(|(number, _)| *number).collect();
        if let Some(batch) = &mut self.batch {
            let (stay, rest) = std::mem::take(&mut batch.workflows)
                .into_iter()
                .partition(|number| now_running.contains(number));
            batch.workflows = stay;
            let rest: Vec<usize> = rest;
            self.set_up.extend(&rest);
            self.waiting.splice(0..0, rest);
        }
        let needs: u32 = plan.iter().map(|(_, count)| *count).sum();
        if !self.has_turn(needs) {
            return;
        }
        let Some(slots) = self.pool.draw(needs as usize, &mut self.dice) else {
            let free = self.pool.free();
            let aside = self.set_aside();
            let why = format!("{needs} cores are needed, {free} of {total} are free{aside}");
            self.ask_for_room();
            self.wave_again(Some((needs, why)));
            return;
        };
        self.reserve_all(plan, &slots);
    }

    fn reserve_all(&mut self, plan: Vec<(usize, u32)>, slots: &[NodeId]) {
        let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
        slots.iter().for_each(|node| *counts.entry(*node).or_default() += 1);
        let mut numbers = BTreeMap::new();
        for (node, cores) in counts {
            let Some(worker) = self.pool.get(node).copied() else { continue };
            numbers.insert(node, self.reserve(&worker, cores, Vec::new()));
        }
        let shards = plan.iter().flat_map(|(workflow, count)| {
            (0..*count).map(|shard| (u32::try_from(*workflow).unwrap_or(u32::MAX), shard))
        });
        let seats: Vec<(Sid, u32)> = shards
            .zip(slots)
            .filter_map(|(sid, node)| numbers.get(node).map(|number| (sid, *number)))
            .collect();
        for (sid, number) in &seats {
            if let Some(hold) = self.holds.get_mut(number) {
                hold.shards.push(*sid);
            }
        }
        let holds = numbers.into_values().collect();
        if let Some(wave) = &mut self.wave {
            wave.again = None;
            wave.step = WaveStep::Seating(Some(Seating { plan, seats, holds }));
        }
        self.changed();
    }

    pub(super) fn reserve(&mut self, worker: &Worker, cores: u32, shards: Vec<Sid>) -> u32 {
        self.hold_numbers += 1;
        let number = self.hold_numbers;
        let (node, boot) = (worker.node, worker.boot);
        self.pool.asked(node, cores);
        let renew = self.now.after(self.settings.hold_for / 2);
        let hold =
            Held { worker: node, boot, cores, shards, granted: false, surplus: false, renew };
        self.holds.insert(number, hold);
        self.send(Errand::Reserve(number));
        number
    }

    pub(super) fn hold(&self, number: u32) -> Hold {
        Hold { job: self.id, epoch: self.epoch, number }
    }

    /// Gives up what is left of a hold.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(held) = self.holds.remove(&number) {
            if !held.granted {
                self.pool.answered(held.worker, held.cores, false);
            }
            let errand = Errand::Release(self.hold(number), held.worker, held.boot);
            self.send(errand);
            self.changed();
        }
    }

    /// A shard needs its part of a hold no more: it was dispatched to, or never will be.
    pub(super) fn leave_hold(&mut self, sid: Sid, dispatched: bool) {
        let place = self.shards.get_mut(&sid).and_then(|shard| shard.place.take());
        let Some(number) = place.and_then(|place| place.hold) else { return };
        let Some(held) = self.holds.get_mut(&number) else { return };
        held.shards.retain(|other| *other != sid);
        held.surplus |= !dispatched;
        if held.shards.is_empty() {
            if held.surplus {
                self.release(number);
            } else {
                self.holds.remove(&number);
            }
        }
    }

    /// Holds that nothing was dispatched to yet are kept alive.
    pub(super) fn look_at_holds(&mut self) {
        let due: Vec<u32> = self
            .holds
            .iter()
            .filter(|(_, held)| held.granted && held.renew <= self.now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let renew = self.now.after(self.settings.hold_for / 2);
            if let Some(held) = self.holds.get_mut(&number) {
                held.renew = renew;
            }
            self.send(Errand::Reserve(number));
        }
    }

    pub(super) fn reserve_answered(&mut self, number: u32, answer: &Answer) {
        let Some(held) = self.holds.get_mut(&number) else {
            // Given up meanwhile; the release is behind the question.
            self.counts.late += 1;
            return;
        };
        let (node, cores, shards) = (held.worker, held.cores, held.shards.clone());
        let renewed = std::mem::replace(&mut held.granted, true);
        let granted = *answer == Answer::Done;
        if !renewed {
            self.pool.answered(node, cores, granted);
        }
        self.changed();
        if granted {
            return self.granted(number, &shards);
        }
        if let Some(held) = self.holds.get_mut(&number) {
            held.granted = false;
        }
        let why = match answer {
            Answer::Refused(Refused::NoCores { asked, free, total }) if free < asked => {
                self.pool.correct(node, *free, *total);
                format!("worker {node} was asked for {asked} cores and has {free} of {total} free")
            }
            Answer::Refused(Refused::Draining) => {
                self.pool.set_draining(node);
                format!("worker {node} is draining")
            }
            Answer::Refused(Refused::DiskFull) => {
                self.pool.set_disk_full(node);
                format!("the disk of worker {node} is full")
            }
            Answer::Refused(Refused::Fence(OrderRefusal::Epoch(refusal))) => {
                return self.depose(format!("worker {node}: {refusal}"));
            }
            other => {
                // Nobody refuses for want of cores that he says he has.
                self.counts.lies +=
                    u64::from(matches!(other, Answer::Refused(Refused::NoCores { .. })));
                self.shun(node);
                format!("worker {node} did not reserve: {other:?}")
            }
        };
        self.not_granted(number, &shards, why);
    }

    /// Workers that are there and are given nothing, for whoever wonders what a job waits for.
    pub(super) fn set_aside(&self) -> String {
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

    /// No more is asked of a worker before it is heard of again.
    pub(super) fn shun(&mut self, node: NodeId) {
        if let Some(total) = self.pool.get(node).map(|worker| worker.total) {
            self.pool.correct(node, 0, total);
        }
    }

    pub(super) fn reserve_unanswered(&mut self, number: u32) {
        let Some(held) = self.holds.get(&number) else { return };
        if held.granted {
            // A renewal that was lost; the next one is due soon enough.
            return;
        }
        let (node, shards) = (held.worker, held.shards.clone());
        self.shun(node);
        self.not_granted(number, &shards, format!("worker {node} does not answer"));
    }

    fn granted(&mut self, number: u32, shards: &[Sid]) {
        let Some(wave) = &self.wave else { return self.release(number) };
        match &wave.step {
            WaveStep::Seating(Some(seating)) if seating.holds.contains(&number) => {
                let all = |hold: &u32| self.holds.get(hold).is_some_and(|held| held.granted);
                if seating.holds.iter().all(all) {
                    self.provision();
                }
            }
            WaveStep::Provisioning(seating) if seating.holds.contains(&number) => {}
            _ => shards.iter().for_each(|sid| self.seated(*sid, number)),
        }
    }

    fn seated(&mut self, sid: Sid, number: u32) {
        let Some(held) = self.holds.get(&number) else { return };
        let place = Place { worker: held.worker, boot: held.boot, hold: Some(number) };
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        match shard.step {
            Step::Idle if shard.place == Some(place) => shard.step = Step::Seated,
            Step::Unsent if shard.place == Some(place) => {
                shard.step = Step::Sent;
                let attempt = shard.attempt();
                self.send(Errand::Dispatch(sid, attempt));
            }
            // Renewed; or it goes another way by now and leaves the hold there.
            _ => return,
        }
        self.changed();
    }

    fn not_granted(&mut self, number: u32, shards: &[Sid], why: String) {
        let seating = match self.wave.as_ref().map(|wave| &wave.step) {
            Some(WaveStep::Seating(Some(seating)) | WaveStep::Provisioning(seating))
                if seating.holds.contains(&number) =>
            {
                Some(seating.clone())
            }
            _ => None,
        };
        if let Some(seating) = seating {
            let needs = seating.plan.iter().map(|(_, count)| *count).sum();
            seating.holds.iter().for_each(|hold| self.release(*hold));
            // A division that is on its way to the ledger will stand; its shards are seated one by one.
            let still_free =
                matches!(self.wave.as_ref().map(|w| &w.step), Some(WaveStep::Seating(_)));
            if still_free {
                return self.wave_again(Some((needs, why)));
            }
            return;
        }
        self.release(number);
        for sid in shards {
            match self.shards.get(sid).map(|shard| &shard.step) {
                Some(Step::Idle | Step::Seated) => {
                    self.set(*sid, Step::Idle);
                    self.seat_later(*sid);
                }
                Some(Step::Unsent) => self.lose(*sid, "its core is gone", None),
                // Its attempt is in the ledger or on its way there; the worker will refuse it, and that leads on.
                _ => {}
            }
        }
    }

    fn wave_again(&mut self, queued: Option<(u32, String)>) {
        let tries = self.wave.as_ref().map_or(0, |wave| wave.tries);
        let at = self.backoff(tries);
        if let Some(wave) = &mut self.wave {
            wave.step = WaveStep::Seating(None);
            wave.tries = wave.tries.saturating_add(1);
            wave.again = Some(at);
        }
        if let Some((needs, why)) = queued {
            let (free, total) = (self.pool.free(), self.pool.total());
            self.say_queued(needs, free, total, why);
        }
    }

    /// What a worker said when it was asked does not hold for ever.
    pub(super) fn ask_anew(&mut self) {
        if self.now.since(self.hinted) >= HINTS_AFTER {
            self.hinted = self.now;
            self.pool.believe_hints();
        }
    }

    /// Twice as long each time, with some jitter so that jobs do not meet again and again.
    pub(super) fn backoff(&mut self, tries: u32) -> Moment {
        let wait = self.settings.again.saturating_mul(1 << tries.min(10));
        let wait = wait.min(self.settings.again_most);
        let jitter = usize::try_from(wait.as_millis() / 4).unwrap_or(0) + 1;
        self.now.after(wait + Duration::from_millis(self.dice.below(jitter as u64)))
    }
}
