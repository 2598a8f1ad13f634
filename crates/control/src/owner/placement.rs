//! Cores: reserved on workers in two phases, all of a wave or none, and given up when they are not
//! needed.

use std::collections::{BTreeMap, BTreeSet};

use fence::{FenceRefusal, Moment, NodeId};

use super::calls::Call;
use super::reservations::Left;
use super::shard::{Assignment, Step};
use super::stages::{Wave, WavePlacement, WaveStep};
use super::{Numbers, Owner, Sid};
use crate::message::{WorkerRefusal, WorkerResponse};
use crate::pool::Worker;
use schedule::allocation;

impl Owner {
    /// Asks for all cores of a batch. How many each workflow gets follows from the whole fleet, so
    /// that the same plan is divided in the same way whatever else runs; which cores they are
    /// follows from what is free.
    pub(super) fn reserve_wave(&mut self) {
        let waits = self
            .stages
            .wave()
            .and_then(|wave| wave.retry_at)
            .is_some_and(|at| at > self.time.now());
        if waits || !self.fits() {
            return;
        }
        self.capacity.refresh(self.time.now());
        let Some(batch) = self.stages.batch() else { return };
        let total = self.capacity.pool().total();
        let candidates: Vec<_> =
            batch.workflows.iter().map(|w| self.spec.manifest().candidate(*w)).collect();
        let grants = allocation::partition(&candidates, total as usize);
        let mut plan = Vec::new();
        for grant in grants.into_iter().next().unwrap_or_default() {
            if let Some(number) = self.spec.manifest().number(&grant.name) {
                plan.push((number, u32::try_from(grant.cores).unwrap_or(u32::MAX)));
            }
        }
        // The pool may have shrunk since the batch was formed; the rest of it is a batch of its own
        // then.
        let now_running: BTreeSet<usize> = plan.iter().map(|(number, _)| *number).collect();
        self.stages.shrink_batch(|number| now_running.contains(&number));
        let needs: u32 = plan.iter().map(|(_, count)| *count).sum();
        if !self.has_turn(needs) {
            return;
        }
        let Some(slots) = self.capacity.draw(needs as usize) else {
            let (free, aside) = (self.capacity.pool().free(), self.capacity.set_aside());
            let why = format!("{needs} cores are needed, {free} of {total} are free{aside}");
            self.ask_for_capacity();
            return self.retry_wave(needs, Numbers::InReason, why);
        };
        self.reserve_all(plan, &slots);
    }

    fn reserve_all(&mut self, plan: Vec<(usize, u32)>, slots: &[NodeId]) {
        let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
        slots.iter().for_each(|node| *counts.entry(*node).or_default() += 1);
        let mut numbers = BTreeMap::new();
        for (node, cores) in counts {
            let Some(worker) = self.capacity.pool().get(node).copied() else { continue };
            numbers.insert(node, self.reserve(&worker, cores, Vec::new()));
        }
        let shards = plan.iter().flat_map(|(workflow, count)| {
            (0..*count).map(|shard| (u32::try_from(*workflow).unwrap_or(u32::MAX), shard))
        });
        let cores: Vec<(Sid, u32)> = shards
            .zip(slots)
            .filter_map(|(sid, node)| numbers.get(node).map(|number| (sid, *number)))
            .collect();
        for (sid, number) in &cores {
            self.capacity.assign(*number, *sid);
        }
        let reservations = numbers.into_values().collect();
        if let Some(wave) = self.stages.wave_mut() {
            wave.retry_at = None;
            wave.step = WaveStep::Reserving(Some(WavePlacement { plan, cores, reservations }));
        }
        self.outgoing.changed();
    }

    pub(super) fn reserve(&mut self, worker: &Worker, cores: u32, shards: Vec<Sid>) -> u32 {
        let renew = self.time.after(self.spec.settings().hold_for / 2);
        let number = self.capacity.reserve(worker, cores, shards, renew);
        self.send(Call::Reserve(number));
        number
    }

    /// Gives up what is left of a reservation.
    pub(super) fn release(&mut self, number: u32) {
        if let Some((worker, boot)) = self.capacity.release(number) {
            self.send(Call::Release(self.spec.reservation_id(number), worker, boot));
            self.outgoing.changed();
        }
    }

    /// A shard needs its part of a reservation no more: it was dispatched to, or never will be.
    pub(super) fn leave_reservation(&mut self, sid: Sid, dispatched: bool) {
        let assignment =
            self.shards.get_mut(&sid).and_then(|shard| shard.placing.assignment.take());
        let Some(number) = assignment.and_then(|it| it.reservation) else { return };
        if self.capacity.leave(number, sid, dispatched) == Left::Surplus {
            self.release(number);
        }
    }

    /// Reservations that nothing was dispatched to yet are kept alive.
    pub(super) fn renew_reservations(&mut self) {
        let next = self.time.after(self.spec.settings().hold_for / 2);
        for number in self.capacity.renew_due(self.time.now(), next) {
            self.send(Call::Reserve(number));
        }
    }

    pub(super) fn reserve_answered(&mut self, number: u32, answer: &WorkerResponse) {
        let granted = *answer == WorkerResponse::Done;
        let Some(reservation) = self.capacity.answered(number, granted) else {
            // Given up meanwhile; the release is behind the question.
            return self.journal.count_late();
        };
        let (node, shards) = (reservation.worker, reservation.shards());
        self.outgoing.changed();
        if granted {
            return self.granted(number, shards);
        }
        let why = match answer {
            WorkerResponse::Refused(WorkerRefusal::NoCores { asked, free, total })
                if free < asked =>
            {
                self.capacity.correct(node, *free, *total);
                format!("worker {node} was asked for {asked} cores and has {free} of {total} free")
            }
            WorkerResponse::Refused(WorkerRefusal::Draining) => {
                self.capacity.set_draining(node);
                format!("worker {node} is draining")
            }
            WorkerResponse::Refused(WorkerRefusal::DiskFull) => {
                self.capacity.set_disk_full(node);
                format!("the disk of worker {node} is full")
            }
            WorkerResponse::Refused(WorkerRefusal::Fence(FenceRefusal::Epoch(refusal))) => {
                return self.depose(format!("worker {node}: {refusal}"));
            }
            other => {
                // Nobody refuses for want of cores that he says he has.
                if matches!(other, WorkerResponse::Refused(WorkerRefusal::NoCores { .. })) {
                    self.journal.count_mismatch();
                }
                self.capacity.shun(node);
                format!("worker {node} did not reserve: {other:?}")
            }
        };
        self.not_granted(number, shards, why);
    }

    pub(super) fn reserve_unanswered(&mut self, number: u32) {
        let reservation = self.capacity.reservations().get(number);
        // A renewal that was lost does no harm; the next one is due soon enough.
        let Some(asked) = reservation.filter(|one| !one.is_granted()) else { return };
        let (node, shards) = (asked.worker, asked.shards().to_vec());
        self.capacity.shun(node);
        self.not_granted(number, &shards, format!("worker {node} does not answer"));
    }

    fn granted(&mut self, number: u32, shards: &[Sid]) {
        let Some(wave) = self.stages.wave() else { return self.release(number) };
        match &wave.step {
            WaveStep::Reserving(Some(placement)) if placement.reservations.contains(&number) => {
                let all = |number: &u32| self.capacity.reservations().is_granted(*number);
                if placement.reservations.iter().all(all) {
                    self.provision();
                }
            }
            WaveStep::Provisioning(placement) if placement.reservations.contains(&number) => {}
            _ => shards.iter().for_each(|sid| self.placed(*sid, number)),
        }
    }

    fn placed(&mut self, sid: Sid, number: u32) {
        let Some(reservation) = self.capacity.reservations().get(number) else { return };
        let place = Assignment {
            worker: reservation.worker,
            boot: reservation.boot,
            reservation: Some(number),
        };
        let Some(shard) = self.shards.get_mut(&sid) else { return };
        match shard.step {
            Step::Idle if shard.placing.assignment == Some(place) => shard.step = Step::Placed,
            Step::Unsent if shard.placing.assignment == Some(place) => {
                shard.step = Step::Sent;
                let attempt = shard.attempt();
                self.send(Call::Dispatch(sid, attempt));
            }
            // Renewed; or the shard goes another way by now and has left the reservation.
            _ => return,
        }
        self.outgoing.changed();
    }

    fn not_granted(&mut self, number: u32, shards: &[Sid], why: String) {
        let placement = self.stages.wave().and_then(Wave::placement);
        let placement = placement.filter(|it| it.reservations.contains(&number)).cloned();
        if let Some(placement) = placement {
            let needs = placement.plan.iter().map(|(_, count)| *count).sum();
            placement.reservations.iter().for_each(|number| self.release(*number));
            // A division that is on its way to the ledger will be taken; its shards are placed one
            // by one.
            let still_free =
                matches!(self.stages.wave().map(|w| &w.step), Some(WaveStep::Reserving(_)));
            if still_free {
                return self.retry_wave(needs, Numbers::Apart, why);
            }
            return;
        }
        self.release(number);
        for sid in shards {
            match self.shards.get(sid).map(|shard| &shard.step) {
                Some(Step::Idle | Step::Placed) => {
                    self.set(*sid, Step::Idle);
                    self.place_later(*sid);
                }
                Some(Step::Unsent) => self.lose(*sid, "its core is gone", None),
                // Its attempt is in the ledger or on its way there; the worker will refuse it, and
                // that leads on.
                _ => {}
            }
        }
    }

    fn retry_wave(&mut self, needs: u32, numbers: Numbers, why: String) {
        let tries = self.stages.wave().map_or(0, |wave| wave.tries);
        let at = self.backoff(tries);
        if let Some(wave) = self.stages.wave_mut() {
            wave.step = WaveStep::Reserving(None);
            wave.tries = wave.tries.saturating_add(1);
            wave.retry_at = Some(at);
        }
        self.say_queued(needs, numbers, why);
    }

    /// When to try something again that was tried so often before.
    pub(super) fn backoff(&mut self, retries: u32) -> Moment {
        self.capacity.backoff(retries, self.spec.settings(), self.time.now())
    }
}
