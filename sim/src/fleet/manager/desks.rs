//! The desks of the jobs that a manager owns: how they are opened, what their owners want done,
//! what they keep.

use control::owner::check::{check_effects, check_owner};
use control::owner::{Adoption, Effect, Event, Owner, blob_of, decode_report};
use fence::{Epoch, JobId};

use super::super::desk::Desk;
use super::super::engine::schema;
use super::super::plan::Mark;
use super::super::result::JobResult;
use super::super::world::{Host, Item, World};
use super::{Back, Kept, What};
use crate::event;

impl World {
    pub(in super::super) fn open_desk(&mut self, m: usize, job: JobId, epoch: Epoch) {
        let (at, life) = (self.now + self.some_ms(2..20), self.life(Host::Manager(m)));
        self.push(at, Item::OpenDesk { m, life, job, epoch });
    }

    /// A new owner: what the ledger has, the newest statistics that a majority has, the reports
    /// beside the ledger.
    pub fn desk(&mut self, m: usize, job: JobId, epoch: Epoch) {
        let current =
            self.book.state.job(job).is_some_and(|it| it.epoch == Some(epoch) && it.end.is_none());
        if !current {
            self.managers[m].claiming.remove(&job);
            return;
        }
        if !self.can_commit(m) {
            return self.open_desk(m, job, epoch);
        }
        let known = self.book.state.job(job).cloned();
        let (Some(record), Some(order)) = (known, self.orders.get(&job)) else { return };
        let manifest = order.manifest.clone();
        let mut newest = Kept::default();
        let promises = !self.canary_is("fleet-checkpoint-no-promise");
        for other in self.reached_by(m) {
            let kept = self.managers[other].checkpoints.entry(job).or_default();
            if promises {
                kept.promise = kept.promise.max(epoch.number);
            }
            if kept.place > newest.place {
                newest = kept.clone();
            }
        }
        let checkpoint = (newest.place.1 > 0).then_some(newest.bytes);
        let now = self.managers[m].clock.read(self.now);
        let workers = self.roster(m);
        let adoption = Adoption {
            job: &record,
            epoch,
            now_ms: self.book.state.now_ms(),
            manifest: manifest.clone(),
            settings: self.settings,
            seed: self.rng.u64(..),
            workers,
        };
        let (owner, effects) = match Owner::adopt(adoption, now) {
            Ok(adopted) => adopted,
            Err(error) => return self.violate("fleet.adopt", format!("{error:?}")),
        };
        let clock = owner.clock(now);
        if checkpoint.is_some() {
            self.reach(Mark::Restored);
        }
        if !record.shards.is_empty() {
            self.reach(Mark::Takeover);
        }
        let mut desk =
            match Desk::new(owner, epoch, schema(&manifest), checkpoint.as_deref(), clock) {
                Ok(desk) => desk,
                Err(error) => return self.violate("R17.restore", error),
            };
        let ends = record.attempts().filter_map(|one| one.end.as_ref()?.result);
        let mut reports = Vec::new();
        for blob in ends {
            match self.blobs.get(&blob).map(|content| decode_report(content)) {
                Some(Ok(report)) => reports.push(report),
                other => {
                    self.violate(
                        "R17a.blob",
                        format!("a committed report is not there: {other:?}"),
                    );
                }
            }
        }
        desk.learn(&record, &reports, clock);
        desk.recall();
        event!("m{m} leads {job} under {epoch}");
        let host = &mut self.managers[m];
        host.claiming.remove(&job);
        let told = desk.statistics.as_ref().map(|statistics| statistics.told(job));
        host.desks.insert(job, desk);
        self.owner_effects(m, job, epoch, effects);
        for event in told.into_iter().flatten() {
            self.owner_event(m, job, epoch, event);
        }
    }

    pub fn owner_event(&mut self, m: usize, job: JobId, epoch: Epoch, event: Event) {
        let now = self.now;
        let host = &mut self.managers[m];
        let Some(desk) = host.desks.get_mut(&job).filter(|desk| desk.epoch == epoch) else {
            return;
        };
        let effects = desk.owner.step(event, host.clock.read(now));
        if desk.owner.counts().illegal > 0 {
            let text = format!("{job}: a transition that the table does not have");
            self.violate("LIFE-2", text);
        }
        self.owner_effects(m, job, epoch, effects);
    }

    pub(in super::super) fn owner_effects(
        &mut self,
        m: usize,
        job: JobId,
        epoch: Epoch,
        effects: Vec<Effect>,
    ) {
        let record = self.book.state.job(job).filter(|record| record.epoch == Some(epoch));
        if let (Some(record), Some(order)) = (record, self.orders.get(&job)) {
            let checked = check_effects(&effects, record, &order.manifest);
            let desk = self.managers[m].desks.get(&job).filter(|desk| desk.epoch == epoch);
            let checked =
                checked.and_then(|()| desk.map_or(Ok(()), |desk| check_owner(&desk.owner, record)));
            if let Err(violation) = checked {
                self.violate(violation.id, violation.detail);
            }
        }
        for effect in effects {
            self.owner_effect(m, job, epoch, effect);
        }
        let over = self.managers[m].desks.get(&job).is_some_and(|desk| desk.owner.is_over());
        if over {
            self.managers[m].desks.remove(&job);
        }
    }

    pub(in super::super) fn hand_to_desk(
        &mut self,
        m: usize,
        job: JobId,
        epoch: Epoch,
        ms: std::ops::Range<u64>,
        event: Event,
    ) {
        let (at, life) = (self.now + self.some_ms(ms), self.life(Host::Manager(m)));
        self.push(at, Item::ToOwner { m, life, job, epoch, event: Box::new(event) });
    }

    pub(in super::super) fn owner_effect(
        &mut self,
        m: usize,
        job: JobId,
        epoch: Epoch,
        effect: Effect,
    ) {
        match effect {
            Effect::Commit { tag, command } => {
                self.propose(m, What::Owner { job, epoch, tag }, command);
            }
            Effect::Call { tag, worker, request } => {
                let w = self.workers.iter().position(|host| host.node == worker);
                if let Some(w) = w {
                    self.ask(m, w, Back::Desk { job, epoch, tag }, request);
                }
            }
            Effect::Probe { tag, worker, request } => {
                let w = self.workers.iter().position(|host| host.node == worker);
                if let Some(w) = w {
                    self.probe(m, w, (job, epoch, tag), request);
                }
            }
            Effect::Store { tag, blob, content } => {
                // On a majority of disks before it is said, and for good.
                self.blobs.insert(blob, content);
                self.hand_to_desk(m, job, epoch, 2..30, Event::Stored { tag });
            }
            Effect::Fetch { tag, blob } => match self.blobs.get(&blob).cloned() {
                Some(content) => {
                    self.hand_to_desk(m, job, epoch, 2..30, Event::Fetched { tag, content });
                }
                None => self.violate("R17a.blob", format!("{job}: a blob is not there")),
            },
            Effect::Seal { shard, attempt } => {
                let desk = self.managers[m].desks.get_mut(&job);
                if let Some(statistics) = desk.and_then(|desk| desk.statistics.as_mut()) {
                    statistics.seal(shard, attempt);
                }
            }
            Effect::NeverRan { shard, attempt } => {
                let desk = self.managers[m].desks.get_mut(&job);
                if let Some(statistics) = desk.and_then(|desk| desk.statistics.as_mut()) {
                    statistics.never_ran(shard, attempt);
                }
            }
            // A unit that nobody has run and nobody counts.
            Effect::Lost { .. } if self.canary_is("fleet-drops-silently") => {}
            Effect::Lost { shard, attempt, count } => {
                event!("{count} units were lost with attempt {attempt} of {shard}");
                let host = &mut self.managers[m];
                let local = host.clock.read(self.now);
                let Some(desk) = host.desks.get_mut(&job) else { return };
                let clock = desk.owner.clock(local);
                if let Some(statistics) = &mut desk.statistics {
                    statistics.lost(shard, attempt, count, clock);
                }
            }
            Effect::Moved(moved) => event!(
                "{} {} {} -> {}: {}",
                moved.shard,
                moved.attempt,
                moved.from,
                moved.to,
                moved.reason
            ),
            Effect::Noted(note) => event!("{job} {}", note.text),
            Effect::Queued(queued) => {
                if queued.is_some() {
                    self.reach(Mark::Queued);
                }
            }
            Effect::Steered { .. } => {}
            Effect::Conclude(conclusion) => {
                let now = self.now;
                let host = &mut self.managers[m];
                let local = host.clock.read(now);
                let Some(desk) = host.desks.get_mut(&job) else { return };
                let clock = desk.owner.clock(local);
                let (extra, repeats) = (desk.extra, desk.repeats);
                let Some(mut statistics) = desk.statistics.take() else { return };
                for what in statistics.merge().incomplete() {
                    event!("{job} is incomplete: {what}");
                }
                for one in &conclusion.unrun {
                    event!("{} units of {} were never run", one.count, one.shard);
                }
                let policy = control::owner::OnWorkerLoss::default();
                let finished = statistics.finish(&conclusion, policy, clock);
                if repeats > 0 {
                    self.reach(Mark::Repeated);
                }
                let result = JobResult::new(&conclusion, &finished, extra);
                let content = postcard::to_allocvec(&(epoch, result)).unwrap_or_default();
                let blob = blob_of(&content);
                self.blobs.insert(blob, content);
                self.hand_to_desk(m, job, epoch, 5..50, Event::Concluded { result: Some(blob) });
            }
            Effect::Finished { outcome } => event!("{job} {outcome}"),
            Effect::Deposed { why } => event!("m{m} leads {job} no more: {why}"),
        }
    }

    /// A checkpoint goes to every manager that can be reached.
    pub(in super::super) fn keep(
        &mut self,
        m: usize,
        job: JobId,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
    ) {
        let (at, life) = (self.now + self.some_ms(3..60), self.life(Host::Manager(m)));
        self.push(at, Item::Keep { m, life, job, epoch, number, bytes });
    }

    pub fn kept(
        &mut self,
        m: usize,
        life: u64,
        job: JobId,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
    ) {
        let place = (epoch.number, number);
        let there = self.reached_by(m);
        let mut count = 0;
        for other in there {
            let kept = self.managers[other].checkpoints.entry(job).or_default();
            if kept.promise > place.0 {
                continue;
            }
            count += usize::from(kept.place <= place);
            if kept.place < place {
                *kept = Kept { promise: place.0, place, bytes: bytes.clone() };
            }
        }
        if self.life(Host::Manager(m)) != life {
            return;
        }
        if count * 2 <= self.managers.len() {
            // Gone on with while this owner lives; a replaced one never succeeds.
            let led = self.managers[m].desks.get(&job).is_some_and(|desk| desk.epoch == epoch);
            if led {
                self.keep(m, job, epoch, number, bytes);
            }
            return;
        }
        let Some(desk) = self.managers[m].desks.get_mut(&job).filter(|desk| desk.epoch == epoch)
        else {
            return;
        };
        for (shard, attempt, counters, frames) in desk.stored(number) {
            let sealed = Event::Sealed { shard, attempt, counters, frames, totals: Vec::new() };
            self.owner_event(m, job, epoch, sealed);
        }
    }
}
