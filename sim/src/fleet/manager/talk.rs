//! What a manager says to workers, and what it answers them.

use std::collections::BTreeSet;
use std::time::Duration;

use control::breaker::{Change, Outcome, Permit};
use control::fleet::message::{Answer, Ask, Frames, FramesAnswer, Renew, Renewal, Tell, Told};
use control::fleet::owner::{Event, NoAnswer};
use control::fleet::routing::{self, Pace, Presence, Signs};
use control::ledger::{Command, Word};
use fence::{Attempt, BootId, Epoch, JobId, NodeId, ShardKey};

use super::super::plan::Mark;
use super::super::world::{Beat, Host, Item, Packet, World};
use super::{Call, PATIENCE, PROBE_PATIENCE, What};

impl World {
    pub(in super::super) fn ask(
        &mut self,
        m: usize,
        w: usize,
        back: Option<(JobId, Epoch, u64)>,
        ask: Ask,
    ) {
        let now = self.now;
        let boot = match self.managers[m].heard.get(&Host::Worker(w)) {
            Some((_, Beat::Worker { boot, .. })) => *boot,
            _ => BootId(0),
        };
        let to = (self.workers[w].node, boot);
        let host = &mut self.managers[m];
        let local = host.clock.read(now);
        let permit = match host.breakers.ask(to, local) {
            None if ask.can_wait() => {
                if let Some((job, epoch, tag)) = back {
                    let why = NoAnswer::NotAsked;
                    self.hand_to_desk(m, job, epoch, 0..1, Event::Unanswered { tag, why });
                }
                return;
            }
            None => host.breakers.insist(to, local),
            Some(permit) => permit,
        };
        self.call(m, w, back, ask, (to, permit, PATIENCE));
    }

    /// Whether a worker is there. Its machine, if that is there, says at once that nobody listens.
    pub(super) fn probe(&mut self, m: usize, w: usize, back: (JobId, Epoch, u64), ask: Ask) {
        let (from, to) = (Host::Manager(m), Host::Worker(w));
        if !self.is_up(to)
            && !self.net.cut.contains(&(from, to))
            && !self.net.cut.contains(&(to, from))
        {
            let (job, epoch, tag) = back;
            let why = NoAnswer::Refused;
            return self.hand_to_desk(m, job, epoch, 1..4, Event::Unanswered { tag, why });
        }
        let host = &mut self.managers[m];
        let to = (self.workers[w].node, BootId(0));
        let permit = host.breakers.insist(to, host.clock.read(self.now));
        self.call(m, w, Some(back), ask, (to, permit, PROBE_PATIENCE));
    }

    fn call(
        &mut self,
        m: usize,
        w: usize,
        back: Option<(JobId, Epoch, u64)>,
        ask: Ask,
        (to, permit, patience): ((NodeId, BootId), Permit, Duration),
    ) {
        let now = self.now;
        let host = &mut self.managers[m];
        host.call_numbers += 1;
        let call = host.call_numbers;
        host.calls.insert(call, Call { back, sent: now, patience, to, permit });
        let life = self.life(Host::Manager(m));
        let packet = Packet::Ask { from: m, life, call, ask: Box::new(ask) };
        self.send(Host::Manager(m), Host::Worker(w), 0, packet);
    }

    pub(super) fn note(&mut self, m: usize, call: &Call, outcome: Outcome) {
        let host = &mut self.managers[m];
        let local = host.clock.read(self.now);
        match host.breakers.note(call.to, call.permit, outcome, local) {
            Some(Change::Opened) => self.reach(Mark::Opened),
            Some(Change::Closed) => self.reach(Mark::Closed),
            None => {}
        }
    }

    pub(super) fn routing(
        &self,
        m: usize,
        of: (NodeId, BootId),
        live: bool,
        accepting: bool,
    ) -> routing::Routing {
        let host = &self.managers[m];
        let local = host.clock.read(self.now);
        let tripped = host.breakers.tripped(of);
        let signs = Signs {
            presence: if live { Presence::There } else { Presence::Gone },
            accepting,
            disk_full: false,
            pace: Pace::Usual,
            short_of_memory: false,
            overdue: false,
            breaker: tripped.map(|tripped| (host.breakers.state(of, local), tripped)),
        };
        routing::route(&signs).0
    }

    /// Tries the workers whose cool-down is over; those that are gone or live anew are forgotten.
    pub(super) fn try_again(&mut self, m: usize) {
        let local = self.managers[m].clock.read(self.now);
        if self.managers[m].breakers.due(local).next().is_none() {
            return;
        }
        let there: Vec<(NodeId, BootId)> =
            self.roster(m).iter().filter(|w| w.live).map(|w| (w.node, w.boot)).collect();
        let host = &mut self.managers[m];
        host.breakers.retain(|target| there.contains(&target));
        let due: Vec<(NodeId, BootId)> = host.breakers.due(local).collect();
        for (node, _) in due {
            if let Some(w) = self.workers.iter().position(|worker| worker.node == node) {
                self.ask(m, w, None, Ask::Inspect { job: Some(JobId::default()) });
            }
        }
    }

    /// A message for a manager.
    pub fn at_manager(&mut self, m: usize, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Answer { call, answer } => {
                let Some(call) = self.managers[m].calls.remove(&call) else { return };
                self.note(m, &call, Outcome::Answered);
                let Some((job, epoch, tag)) = call.back else { return };
                if let Answer::Stopped { report: Some(report) } = &*answer {
                    let host = &mut self.managers[m];
                    let local = host.clock.read(now);
                    if let Some(desk) = host.desks.get_mut(&job) {
                        let clock = desk.owner.clock(local);
                        desk.ended(report, clock);
                    }
                }
                let answered = Event::Answered { tag, answer: *answer, took: now - call.sent };
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
            Packet::Granted { job, worker, boot, attempts } => {
                let epoch = self.managers[m].desks.get(&job).map(|desk| desk.epoch);
                if let Some(epoch) = epoch {
                    let renewed = Event::Renewed { worker, boot, attempts };
                    self.owner_event(m, job, epoch, renewed);
                }
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
        let answers = renew.decide(state);
        let granted: Vec<(ShardKey, Attempt)> = answers
            .iter()
            .filter(|(_, _, renewal)| matches!(renewal, Renewal::Granted { .. }))
            .map(|(shard, attempt, _)| (*shard, *attempt))
            .collect();
        self.tell_owners(m, renew.worker, renew.boot, &granted);
        self.send(Host::Manager(m), Host::Worker(from), life, Packet::Renewed { number, answers });
    }

    /// Owners hear who renews, whichever manager was asked.
    fn tell_owners(&mut self, m: usize, worker: NodeId, boot: BootId, all: &[(ShardKey, Attempt)]) {
        let jobs: BTreeSet<JobId> = all.iter().map(|(shard, _)| shard.job).collect();
        for job in jobs {
            let mine = all.iter().filter(|(shard, _)| shard.job == job).copied().collect();
            let renewed = Packet::Granted { job, worker, boot, attempts: mine };
            let owner = self.managers.iter().position(|host| host.desks.contains_key(&job));
            match owner {
                Some(owner) if owner == m => self.at_manager(m, renewed),
                Some(owner) => {
                    let life = self.life(Host::Manager(owner));
                    self.send(Host::Manager(m), Host::Manager(owner), life, renewed);
                }
                None => {}
            }
        }
    }

    /// The owner of a job as this manager knows it; true: the job has ended.
    pub(in super::super) fn owner_of(
        &self,
        m: usize,
        job: JobId,
    ) -> Option<(bool, Option<NodeId>)> {
        let job = self.managers[m].view.job(job)?;
        let owner = job.owner.map(|owner| owner.node).filter(|node| *node != self.managers[m].node);
        Some((job.end.is_some(), owner))
    }

    pub(in super::super) fn told(
        &mut self,
        m: usize,
        from: usize,
        life: u64,
        number: u64,
        tell: Tell,
    ) {
        let me = Host::Manager(m);
        let answer = |world: &mut Self, told: Told| {
            world.send(me, Host::Worker(from), life, Packet::Told { number, told });
        };
        let Some(job) = tell.job() else {
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
                        sent_until_ms: None,
                        word: Word::of_worker(report.certain),
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

    pub(in super::super) fn framed(
        &mut self,
        m: usize,
        from: usize,
        life: u64,
        number: u64,
        frames: &Frames,
    ) {
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
                let heard = None;
                let event = Event::Progress { shard, attempt, counters, heard };
                self.owner_event(m, job, epoch, event);
            }
        }
        let packet = Packet::FramesTaken { number, job, from: m, answer: Box::new(answer) };
        self.send(Host::Manager(m), Host::Worker(from), life, packet);
    }
}
