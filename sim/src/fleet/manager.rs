//! A manager's host: sessions and proposals, claims and the queue by the product's own rules, desks of the jobs it
//! owns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::fleet::claims::{Duty, Managers, duties};
use control::fleet::message::{Answer, Ask, Frames, FramesAnswer, Renew, Renewal, Tell, Told};
use control::fleet::owner::check::{check_effects, check_owner};
use control::fleet::owner::{Adoption, Effect, Event, Owner, blob_of, decode_report};
use control::fleet::{pool, queue};
use control::ledger::{Command, Job, Proposal, Reply, RequestId, SessionId, State, Submission};
use fence::{BootId, Epoch, Hlc, JobId, NodeId};
use stats::Delta;

use super::desk::Desk;
use super::engine::schema;
use super::plan::{Class, Clock, Mark};
use super::worker::job_of;
use super::world::{Beat, Host, Item, Packet, World};
use crate::event;

/// A worker or a manager that was not heard of for so long is dead to this one.
const SILENT: Duration = Duration::from_secs(3);
/// Without an answer, an ask has failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a proposal is for.
#[derive(Clone, Debug)]
pub enum What {
    Open,
    Claim(JobId),
    Owner {
        job: JobId,
        epoch: Epoch,
        tag: u64,
    },
    /// A report of a job that has ended.
    Late {
        worker: usize,
        shard: fence::ShardKey,
        attempt: fence::Attempt,
    },
    Time,
    Create(usize),
    Cancel,
}

pub struct Pending {
    pub proposal: Proposal,
    pub what: What,
}

/// As `fleet::manager::checkpoints` keeps them.
#[derive(Clone, Default)]
pub struct Kept {
    /// The lowest epoch that is taken.
    promise: u64,
    /// Epoch and number; number 0: none.
    place: (u64, u64),
    bytes: Vec<u8>,
}

pub struct ManagerHost {
    pub node: NodeId,
    pub boot: BootId,
    pub clock: Clock,
    pub up: bool,
    open: bool,
    seq: u64,
    pub pending: BTreeMap<u64, Pending>,
    /// The state as far as it was replicated to here.
    pub view: State,
    pub heard: BTreeMap<Host, (Duration, Beat)>,
    pub desks: BTreeMap<JobId, Desk>,
    claiming: BTreeSet<JobId>,
    calls: BTreeMap<u64, (JobId, Epoch, u64, Duration)>,
    call_numbers: u64,
    workers: Vec<pool::Worker>,
    /// Statistics of owners, newest by epoch and number. On disk.
    pub checkpoints: BTreeMap<JobId, Kept>,
    seen_ms: u64,
    seen_at: Duration,
}

impl ManagerHost {
    pub fn new(number: usize, clock: Clock, view: State) -> Self {
        Self {
            node: NodeId(1 + number as u128),
            boot: BootId(0),
            clock,
            up: false,
            open: false,
            seq: 0,
            pending: BTreeMap::new(),
            view,
            heard: BTreeMap::new(),
            desks: BTreeMap::new(),
            claiming: BTreeSet::new(),
            calls: BTreeMap::new(),
            call_numbers: 0,
            workers: Vec::new(),
            checkpoints: BTreeMap::new(),
            seen_ms: 0,
            seen_at: Duration::ZERO,
        }
    }

    pub fn session(&self) -> SessionId {
        SessionId { node: self.node, boot: self.boot }
    }
}

/// What the ledger says of an attempt that wants to go on; as managers answer it.
fn renewal(
    job: Option<&Job>,
    renew: &Renew,
    shard: &fence::ShardKey,
    attempt: fence::Attempt,
) -> Renewal {
    let refused = |why: &str| Renewal::Refused { why: why.to_owned() };
    let Some(job) = job else { return refused("the job is not known") };
    if job.end.is_some() || job.cancel.is_some() {
        return refused("the job has ended or is cancelled");
    }
    let last = job.shard(shard).and_then(|known| known.last());
    let Some((number, record)) = last else { return refused("no such attempt") };
    let same = (record.worker, record.boot) == (renew.worker, renew.boot);
    if number != attempt || !same || !record.is_live() {
        return refused("it is not the shard's live attempt");
    }
    Renewal::Granted
}

impl World {
    pub fn start_manager(&mut self, m: usize) {
        let host = &mut self.managers[m];
        host.boot = host.boot.next();
        (host.up, host.open, host.seq) = (true, false, 0);
        event!("m{m} starts, boot {}", host.boot);
        self.propose(m, What::Open, Command::OpenSession);
    }

    pub fn stop_manager(&mut self, m: usize) {
        let host = &mut self.managers[m];
        host.up = false;
        host.pending.clear();
        host.desks.clear();
        host.claiming.clear();
        host.calls.clear();
        host.heard.clear();
        host.workers.clear();
        event!("m{m} is killed");
    }

    // ── the ledger ─────────────────────────────────────────────────────────────────────────────

    pub fn propose(&mut self, m: usize, what: What, command: Command) {
        let wall_ms = self.now.as_millis() as u64;
        let host = &mut self.managers[m];
        host.seq += 1;
        let request = RequestId { session: host.session(), seq: host.seq };
        let settled = host.pending.keys().next().map_or(host.seq - 1, |first| first - 1);
        let at = Hlc { wall_ms, logical: 0, node: host.node };
        let proposal = Proposal { request, settled, at, command };
        host.pending.insert(request.seq, Pending { proposal, what });
        self.say(m, request.seq, 1..4);
    }

    fn say(&mut self, m: usize, seq: u64, ms: std::ops::Range<u64>) {
        let Some(pending) = self.managers[m].pending.get(&seq) else { return };
        let proposal = Box::new(pending.proposal.clone());
        let (at, life) = (self.now + self.some_ms(ms), self.life(Host::Manager(m)));
        self.push(at, Item::Propose { m, life, proposal });
    }

    /// A proposal reaches the leader, or nobody.
    pub fn proposed(&mut self, m: usize, life: u64, proposal: &Proposal) {
        let alive = self.life(Host::Manager(m)) == life && self.managers[m].up;
        let seq = proposal.request.seq;
        if alive && !self.managers[m].pending.contains_key(&seq) {
            return;
        }
        if !self.can_commit(m) {
            // It may lie in some log, and come to light later.
            if alive {
                self.say(m, seq, 100..400);
            } else if self.rng.bool()
                && self.book.leader.is_some()
                && self.now >= self.book.stalled_until
            {
                self.commit(proposal);
            }
            return;
        }
        let Some(reply) = self.commit(proposal) else { return };
        if self.rng.u8(..100) < self.book.unknown {
            self.injected(Class::Unknown);
            if let Some(What::Owner { job, epoch, tag }) =
                self.managers[m].pending.get(&seq).map(|pending| pending.what.clone())
            {
                self.owner_event(m, job, epoch, Event::Unknown { tag });
            }
            return self.say(m, seq, 50..600);
        }
        let at = self.now + self.some_ms(1..4);
        self.push(at, Item::Committed { m, life, seq, reply: Box::new(reply) });
    }

    fn commit(&mut self, proposal: &Proposal) -> Option<Reply> {
        match self.book.apply(proposal) {
            Ok(reply) => Some(reply),
            Err(violation) => {
                self.violate("ledger", violation);
                None
            }
        }
    }

    pub fn committed(&mut self, m: usize, seq: u64, reply: Reply) {
        let Some(pending) = self.managers[m].pending.remove(&seq) else { return };
        match pending.what {
            What::Open => self.managers[m].open = matches!(reply, Reply::SessionOpened { .. }),
            What::Claim(job) => {
                if let Reply::Claimed { epoch } = reply {
                    self.open_desk(m, job, epoch);
                } else {
                    self.managers[m].claiming.remove(&job);
                }
            }
            What::Owner { job, epoch, tag } => {
                self.owner_event(m, job, epoch, Event::Committed { tag, reply });
            }
            What::Late { worker, shard, attempt } => {
                self.ask(m, worker, None, Ask::Forget { shard, attempt });
            }
            What::Create(number) => {
                if let Reply::Submitted(Submission::Accepted { job, .. }) = reply {
                    self.acknowledged(number, job);
                }
            }
            What::Time | What::Cancel => {}
        }
    }

    // ── desks ──────────────────────────────────────────────────────────────────────────────────

    fn open_desk(&mut self, m: usize, job: JobId, epoch: Epoch) {
        let (at, life) = (self.now + self.some_ms(2..20), self.life(Host::Manager(m)));
        self.push(at, Item::OpenDesk { m, life, job, epoch });
    }

    /// A new owner: what the ledger has, the newest statistics that a majority has, the reports beside the ledger.
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
        event!("m{m} leads {job} under {epoch}");
        let host = &mut self.managers[m];
        host.claiming.remove(&job);
        host.desks.insert(job, desk);
        self.owner_effects(m, job, epoch, effects);
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

    fn owner_effects(&mut self, m: usize, job: JobId, epoch: Epoch, effects: Vec<Effect>) {
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

    fn hand_to_desk(
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

    fn owner_effect(&mut self, m: usize, job: JobId, epoch: Epoch, effect: Effect) {
        match effect {
            Effect::Commit { tag, command } => {
                self.propose(m, What::Owner { job, epoch, tag }, command);
            }
            Effect::Ask { tag, worker, ask } => {
                let w = self.workers.iter().position(|host| host.node == worker);
                if let Some(w) = w {
                    self.ask(m, w, Some((job, epoch, tag)), ask);
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
                let policy = control::fleet::owner::OnWorkerLoss::default();
                let finished = statistics.finish(&conclusion, policy, clock);
                let counted = Delta::of(&finished.totals).requests().0 + extra;
                if repeats > 0 {
                    self.reach(Mark::Repeated);
                }
                let content =
                    postcard::to_allocvec(&(counted, finished.exact, epoch)).unwrap_or_default();
                let blob = blob_of(&content);
                self.blobs.insert(blob, content);
                self.hand_to_desk(m, job, epoch, 5..50, Event::Concluded { result: Some(blob) });
            }
            Effect::Finished { outcome } => event!("{job} {outcome}"),
            Effect::Deposed { why } => event!("m{m} leads {job} no more: {why}"),
        }
    }

    /// A checkpoint goes to every manager that can be reached.
    fn keep(&mut self, m: usize, job: JobId, epoch: Epoch, number: u64, bytes: Vec<u8>) {
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

    // ── the network ────────────────────────────────────────────────────────────────────────────

    fn ask(&mut self, m: usize, w: usize, back: Option<(JobId, Epoch, u64)>, ask: Ask) {
        let now = self.now;
        let host = &mut self.managers[m];
        host.call_numbers += 1;
        let call = host.call_numbers;
        if let Some((job, epoch, tag)) = back {
            host.calls.insert(call, (job, epoch, tag, now));
        }
        let life = self.life(Host::Manager(m));
        let packet = Packet::Ask { from: m, life, call, ask: Box::new(ask) };
        self.send(Host::Manager(m), Host::Worker(w), 0, packet);
    }

    /// A message for a manager.
    pub fn at_manager(&mut self, m: usize, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Answer { call, answer } => {
                let Some((job, epoch, tag, sent)) = self.managers[m].calls.remove(&call) else {
                    return;
                };
                if let Answer::Stopped { report: Some(report) } = &*answer {
                    let host = &mut self.managers[m];
                    let local = host.clock.read(now);
                    if let Some(desk) = host.desks.get_mut(&job) {
                        let clock = desk.owner.clock(local);
                        desk.ended(report, clock);
                    }
                }
                let answered = Event::Answered { tag, answer: *answer, took: now - sent };
                self.owner_event(m, job, epoch, answered);
            }
            Packet::Tell { from, life, number, tell } => self.told(m, from, life, number, *tell),
            Packet::Renew { from, life, number, renew } => {
                let (at, own) = (now + self.some_ms(1..8), self.life(Host::Manager(m)));
                self.push(at, Item::Read { m, own, from, life, number, renew });
            }
            Packet::Frames { from, life, number, frames } => {
                self.framed(m, from, life, number, &frames);
            }
            Packet::Beat { from, beat } => {
                self.managers[m].heard.insert(from, (now, beat));
            }
            _ => {}
        }
    }

    /// A renewal is decided by what a majority confirms, or not at all.
    pub fn renew(&mut self, m: usize, from: usize, life: u64, number: u64, renew: &Renew) {
        let stale = self.canary_is("fleet-stale-renewal");
        if !stale && !self.can_commit(m) {
            return;
        }
        let state = if stale { &self.managers[m].view } else { &self.book.state };
        let one = |(shard, attempt): &(fence::ShardKey, fence::Attempt)| {
            (*shard, *attempt, renewal(state.job(shard.job), renew, shard, *attempt))
        };
        let answers = renew.attempts.iter().map(one).collect();
        self.send(Host::Manager(m), Host::Worker(from), life, Packet::Renewed { number, answers });
    }

    /// The owner of a job as this manager knows it; true: the job has ended.
    fn owner_of(&self, m: usize, job: JobId) -> Option<(bool, Option<NodeId>)> {
        let job = self.managers[m].view.job(job)?;
        let owner = job.owner.map(|owner| owner.node).filter(|node| *node != self.managers[m].node);
        Some((job.end.is_some(), owner))
    }

    fn told(&mut self, m: usize, from: usize, life: u64, number: u64, tell: Tell) {
        let me = Host::Manager(m);
        let answer = |world: &mut Self, told: Told| {
            world.send(me, Host::Worker(from), life, Packet::Told { number, told });
        };
        let Some(job) = job_of(&tell) else {
            let led: Vec<(JobId, Epoch)> =
                self.managers[m].desks.iter().map(|(job, desk)| (*job, desk.epoch)).collect();
            for (job, epoch) in led {
                self.owner_event(m, job, epoch, Event::Told(tell.clone()));
            }
            return answer(self, Told::Taken);
        };
        let local = self.managers[m].clock.read(self.now);
        if let Some(desk) = self.managers[m].desks.get_mut(&job) {
            let epoch = desk.epoch;
            if let Tell::Ended(report) = &tell {
                let clock = desk.owner.clock(local);
                desk.ended(report, clock);
            }
            self.owner_event(m, job, epoch, Event::Told(tell));
            return answer(self, Told::Taken);
        }
        match self.owner_of(m, job) {
            Some((true, _)) => {
                if let Tell::Ended(report) = tell {
                    self.reach(Mark::LateReport);
                    let (shard, attempt) = (report.shard, report.attempt);
                    let what = What::Late { worker: from, shard, attempt };
                    let (status, counters) = (report.status, report.counters);
                    let command = Command::EndAttempt {
                        shard,
                        under: None,
                        attempt,
                        status,
                        counters,
                        result: None,
                    };
                    self.propose(m, what, command);
                }
                answer(self, Told::Taken);
            }
            Some((false, owner)) => {
                self.reach(Mark::Redirected);
                answer(self, Told::NotOwner { owner });
            }
            // Only a majority can say that there is no such job.
            None if self.can_commit(m) && self.book.state.job(job).is_none() => {
                answer(self, Told::UnknownJob);
            }
            None => {}
        }
    }

    fn framed(&mut self, m: usize, from: usize, life: u64, number: u64, frames: &Frames) {
        let job = frames.job;
        let local = self.managers[m].clock.read(self.now);
        let twice = self.canary_is("fleet-counts-twice");
        let mut told = Vec::new();
        let mut epoch = None;
        let answer = match self.managers[m].desks.get_mut(&job) {
            Some(desk) => {
                let clock = desk.owner.clock(local);
                epoch = Some(desk.epoch);
                let (answer, heard) = desk.frames(job, frames, clock, twice);
                told = heard;
                answer
            }
            None => match self.owner_of(m, job) {
                Some((true, _)) | None => FramesAnswer::UnknownJob,
                Some((false, owner)) => FramesAnswer::NotOwner { owner },
            },
        };
        if let Some(epoch) = epoch {
            for (shard, attempt, counters) in told {
                self.owner_event(m, job, epoch, Event::Progress { shard, attempt, counters });
            }
        }
        let packet = Packet::FramesTaken { number, job, from: m, answer: Box::new(answer) };
        self.send(Host::Manager(m), Host::Worker(from), life, packet);
    }

    // ── twenty times a second ──────────────────────────────────────────────────────────────────

    fn roster(&self, m: usize) -> Vec<pool::Worker> {
        let heard = self.managers[m].heard.iter();
        let workers = heard.filter_map(|(host, (at, beat))| match (host, beat) {
            (Host::Worker(w), Beat::Worker { boot, figures }) => Some(pool::Worker {
                node: self.workers[*w].node,
                boot: *boot,
                total: figures.cores,
                free: figures.cores_free,
                draining: !figures.accepting,
                live: self.now - *at < SILENT,
            }),
            _ => None,
        });
        workers.collect()
    }

    pub fn beat_manager(&mut self, m: usize) {
        let now = self.now;
        if !self.managers[m].up {
            return;
        }
        let connected = self.can_commit(m);
        if connected && self.managers[m].view.applied() < self.book.index && self.rng.u8(..4) > 0 {
            self.managers[m].view = self.book.state.clone();
        }
        if self.book.leader == Some(m) && connected && self.managers[m].open {
            self.keep_time(m);
        }
        let late =
            |(_, (_, _, _, sent)): (&u64, &(JobId, Epoch, u64, Duration))| now - *sent > PATIENCE;
        let given_up: Vec<u64> = self.managers[m]
            .calls
            .iter()
            .filter(|call| late(*call))
            .map(|(call, _)| *call)
            .collect();
        for call in given_up {
            let Some((job, epoch, tag, _)) = self.managers[m].calls.remove(&call) else { continue };
            self.owner_event(m, job, epoch, Event::Unanswered { tag });
        }
        let workers = self.roster(m);
        let changed = workers != self.managers[m].workers;
        self.managers[m].workers.clone_from(&workers);
        let turn = queue::turn(&self.managers[m].view, queue::Turns::default());
        let local = self.managers[m].clock.read(now);
        let led: Vec<(JobId, Epoch)> =
            self.managers[m].desks.iter().map(|(job, desk)| (*job, desk.epoch)).collect();
        for (job, epoch) in led {
            if changed {
                self.owner_event(m, job, epoch, Event::Workers(workers.clone()));
            }
            self.look_at_desk(m, job, epoch, turn.contains(&job), local);
        }
        self.do_duties(m);
    }

    fn look_at_desk(
        &mut self,
        m: usize,
        job: JobId,
        epoch: Epoch,
        turn: bool,
        local: fence::Moment,
    ) {
        let host = &mut self.managers[m];
        let known = host.view.job(job);
        let cancel = known.and_then(|job| job.cancel.as_ref()).map(|cancel| cancel.reason.clone());
        let me = host.session();
        let lost = known.is_some_and(|job| {
            job.end.is_none() && job.owner != Some(me) && job.epoch > Some(epoch)
        });
        if lost {
            host.desks.remove(&job);
            return;
        }
        let Some(desk) = host.desks.get_mut(&job) else { return };
        let mut events = Vec::new();
        if std::mem::replace(&mut desk.turn, turn) != turn {
            events.push(Event::Turn(turn));
        }
        if let Some(reason) = cancel.filter(|_| !desk.cancel_told) {
            desk.cancel_told = true;
            events.push(Event::CancelSeen { reason });
        }
        if desk.owner.wake().is_some_and(|at| at <= local) {
            events.push(Event::Tick);
        }
        let clock = desk.owner.clock(local);
        if let Some(checkpoint) = desk.step(clock) {
            self.keep(m, job, epoch, checkpoint.number, checkpoint.bytes);
        }
        for event in events {
            self.owner_event(m, job, epoch, event);
        }
    }

    /// The leader moves the ledger's time by what its own clock has counted.
    fn keep_time(&mut self, m: usize) {
        let seen = self.book.state.now_ms();
        let host = &mut self.managers[m];
        if host.seen_ms != seen {
            (host.seen_ms, host.seen_at) = (seen, self.now);
        }
        let elapsed = (self.now - host.seen_at).as_millis() as u64 * host.clock.rate / 1_000_000;
        let busy = host.pending.values().any(|pending| matches!(pending.what, What::Time));
        if elapsed >= 200 && !busy {
            self.propose(m, What::Time, Command::Advance { seen_ms: seen, elapsed_ms: elapsed });
        }
    }

    fn do_duties(&mut self, m: usize) {
        let now = self.now;
        let host = &self.managers[m];
        if !host.open {
            return;
        }
        let mut live: BTreeSet<NodeId> = BTreeSet::from([host.node]);
        for (other, (at, _)) in &host.heard {
            if let Host::Manager(other) = other
                && now - *at < SILENT
            {
                live.insert(self.managers[*other].node);
            }
        }
        let managers =
            Managers { me: host.session(), live: &live, leaving: false, silent_ms: 3_000 };
        let led: BTreeSet<JobId> = host.desks.keys().chain(&host.claiming).copied().collect();
        for duty in duties(&host.view, &managers, &led) {
            let job = duty.job();
            if self.managers[m].claiming.contains(&job) {
                continue;
            }
            match duty {
                Duty::Claim { seen, .. } => {
                    self.managers[m].claiming.insert(job);
                    let claimant = self.managers[m].session();
                    self.propose(m, What::Claim(job), Command::ClaimJob { job, claimant, seen });
                }
                Duty::Adopt { .. } => {
                    let Some(epoch) = self.managers[m].view.job(job).and_then(|job| job.epoch)
                    else {
                        continue;
                    };
                    self.managers[m].claiming.insert(job);
                    self.open_desk(m, job, epoch);
                }
                Duty::Release { .. } => {}
            }
        }
    }
}
