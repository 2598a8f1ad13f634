//! What a manager says to workers, and what it answers them.

use std::time::Duration;

use control::breaker::{Change, Outcome, Permit};
use control::message::{
    FrameBatch, FrameBatchAck, RenewRequest, ReportAck, WorkerReport, WorkerRequest,
};
use control::owner::{Event, NoAnswer};
use control::relay::Way;
use control::routing::{self, Pace, Presence, Signals};
use fence::{BootId, Epoch, JobId, NodeId};
use ledger_state::{self, Command};

use super::super::plan::Mark;
use super::super::world::{Beat, Host, Item, Packet, Word, World};
use super::{Back, Call, PATIENCE, PROBE_PATIENCE, What};

impl World {
    pub(in super::super) fn ask(&mut self, m: usize, w: usize, back: Back, ask: WorkerRequest) {
        let now = self.now;
        let boot = match self.managers[m].heard.get(&Host::Worker(w)) {
            Some((_, Beat::Worker { boot, .. })) => *boot,
            _ => BootId(0),
        };
        let to = (self.workers[w].node, boot);
        let host = &mut self.managers[m];
        let local = host.clock.read(now);
        let permit = match host.breakers.ask(to, local) {
            None if ask.can_wait() => return self.ask_through(m, w, back, ask, now),
            None => host.breakers.insist(to, local),
            Some(permit) => permit,
        };
        self.call(m, w, back, ask, (to, permit, PATIENCE));
    }

    /// Whether a worker is there. Its machine, if that is there, says at once that nobody listens.
    pub(super) fn probe(
        &mut self,
        m: usize,
        w: usize,
        back: (JobId, Epoch, u64),
        ask: WorkerRequest,
    ) {
        let (from, to) = (Host::Manager(m), Host::Worker(w));
        let (job, epoch, tag) = back;
        if !self.is_up(to)
            && !self.net.cut.contains(&(from, to))
            && !self.net.cut.contains(&(to, from))
        {
            let why = NoAnswer::Refused;
            return self.hand_to_desk(m, job, epoch, 1..4, Event::Unanswered { tag, why });
        }
        let back = Back::Probe { job, epoch, tag };
        let ways = 1 + u8::from(self.probe_through(m, w, back, &ask));
        let host = &mut self.managers[m];
        host.probes.insert((job, tag), ways);
        let to = (self.workers[w].node, BootId(0));
        let permit = host.breakers.insist(to, host.clock.read(self.now));
        self.call(m, w, back, ask, (to, permit, PROBE_PATIENCE));
    }

    fn call(
        &mut self,
        m: usize,
        w: usize,
        back: Back,
        ask: WorkerRequest,
        (to, permit, patience): ((NodeId, BootId), Permit, Duration),
    ) {
        let now = self.now;
        let host = &mut self.managers[m];
        host.call_numbers += 1;
        let call = host.call_numbers;
        let kept = ask.clone();
        host.calls
            .insert(call, Call { back, sent: now, patience, worker: w, ask: kept, to, permit });
        let life = self.life(Host::Manager(m));
        let owner = match back {
            Back::Manager { m, .. } => Some(self.managers[m].node),
            Back::Nobody | Back::Desk { .. } | Back::Probe { .. } => None,
        };
        let packet = Packet::WorkerRequest { from: m, life, call, owner, ask: Box::new(ask) };
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
        let signs = Signals {
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
                self.ask(
                    m,
                    w,
                    Back::Nobody,
                    WorkerRequest::Inspect { job: Some(JobId::default()) },
                );
            }
        }
    }

    /// A message for a manager.
    pub fn at_manager(&mut self, m: usize, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::WorkerResponse { call, answer } => {
                let Some(call) = self.managers[m].calls.remove(&call) else { return };
                self.note(m, &call, Outcome::Answered);
                self.bring_back(m, call.back, *answer, now - call.sent);
            }
            Packet::WorkerReport { from, life, number, tell } => {
                self.told(m, from, life, number, *tell);
            }
            Packet::RenewRequest { from, life, number, renew } => {
                let late = self.group_delay(m);
                let read = self.some_ms(1 + late..8 + late);
                let (at, own) = (now + read, self.life(Host::Manager(m)));
                self.push(at, Item::Read { m, own, from, life, number, renew });
            }
            Packet::FrameBatch { from, life, number, frames } => {
                self.framed(m, from, life, number, *frames);
            }
            Packet::Group { from, lane, began, answer } => {
                self.in_the_group(m, from, (lane, began, answer));
            }
            Packet::Granted { from, renewed } => self.granted(m, from, &renewed),
            Packet::Relay { from, life, number, worker, word } => {
                self.at_relay(m, (from, life, number), worker, *word);
            }
            Packet::Relayed { number, answer } => self.relayed(m, number, *answer),
            Packet::Beat { from, beat } => {
                self.managers[m].heard.insert(from, (now, beat));
            }
            _ => {}
        }
    }

    /// A renewal is decided by what a majority confirms, or not at all.
    pub fn renew(&mut self, m: usize, from: usize, life: u64, number: u64, renew: &RenewRequest) {
        let stale = self.canary_is("fleet-stale-renewal");
        if !stale && !self.can_commit(m) {
            return;
        }
        let state = if stale { &self.managers[m].view } else { &self.book.state };
        let answers = renew.decide(state);
        self.leader_hears(m);
        self.tell_owners(m, renew, &answers);
        self.send(Host::Manager(m), Host::Worker(from), life, Packet::Renewed { number, answers });
    }

    pub(in super::super) fn told(
        &mut self,
        m: usize,
        from: usize,
        life: u64,
        number: u64,
        tell: WorkerReport,
    ) {
        let me = Host::Manager(m);
        let answer = |world: &mut Self, told: ReportAck| {
            world.send(me, Host::Worker(from), life, Packet::ReportAck { number, told });
        };
        let Some(job) = tell.job() else {
            let led: Vec<(JobId, Epoch)> =
                self.managers[m].desks.iter().map(|(job, desk)| (*job, desk.epoch)).collect();
            for (job, epoch) in led {
                self.owner_event(m, job, epoch, Event::Reported(tell.clone()));
            }
            return answer(self, ReportAck::Taken);
        };
        let tell = match self.tell_desk(m, job, tell) {
            Ok(()) => return answer(self, ReportAck::Taken),
            Err(tell) => tell,
        };
        match Way::of(&self.managers[m].view, job, self.managers[m].node) {
            Way::Ended => {
                if let WorkerReport::Ended(report) = tell {
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
                        word: ledger_state::ReportedBy::of_worker(report.certain),
                    };
                    self.propose(m, what, command);
                }
                answer(self, ReportAck::Taken);
            }
            Way::Owner(owner) => {
                self.reach(Mark::Redirected);
                self.pass_on(m, (from, life, number), owner, Word::WorkerReport(tell));
            }
            Way::Nobody => answer(self, ReportAck::NotOwner { owner: None }),
            // Only a majority can say that there is no such job.
            Way::Unknown if self.can_commit(m) && self.book.state.job(job).is_none() => {
                answer(self, ReportAck::UnknownJob);
            }
            Way::Unknown => {}
        }
    }

    /// What a worker tells the owner of its job; back, if that is not led here.
    pub(super) fn tell_desk(
        &mut self,
        m: usize,
        job: JobId,
        tell: WorkerReport,
    ) -> Result<(), WorkerReport> {
        let local = self.managers[m].clock.read(self.now);
        let Some(desk) = self.managers[m].desks.get_mut(&job) else { return Err(tell) };
        let epoch = desk.epoch;
        if let WorkerReport::Ended(report) = &tell {
            let clock = desk.owner.clock(local);
            desk.ended(report, clock);
        }
        self.owner_event(m, job, epoch, Event::Reported(tell));
        Ok(())
    }

    /// Frames for the owner of their job; none, if that is not led here.
    pub(super) fn frames_to_desk(
        &mut self,
        m: usize,
        frames: &FrameBatch,
    ) -> Option<FrameBatchAck> {
        let job = frames.job;
        let local = self.managers[m].clock.read(self.now);
        let twice = self.canary_is("fleet-counts-twice");
        let desk = self.managers[m].desks.get_mut(&job)?;
        let (clock, epoch) = (desk.owner.clock(local), desk.epoch);
        let (answer, told) = desk.frames(job, frames, clock, twice);
        for event in told {
            self.owner_event(m, job, epoch, event);
        }
        Some(answer)
    }

    fn framed(&mut self, m: usize, from: usize, life: u64, number: u64, frames: FrameBatch) {
        let job = frames.job;
        let answer = match self.frames_to_desk(m, &frames) {
            Some(answer) => answer,
            None => match Way::of(&self.managers[m].view, job, self.managers[m].node) {
                Way::Owner(owner) => {
                    return self.pass_on(m, (from, life, number), owner, Word::FrameBatch(frames));
                }
                Way::Nobody => FrameBatchAck::NotOwner { owner: None },
                Way::Ended | Way::Unknown => FrameBatchAck::UnknownJob,
            },
        };
        let packet = Packet::FramesTaken { number, job, from: m, answer: Box::new(answer) };
        self.send(Host::Manager(m), Host::Worker(from), life, packet);
    }
}
