//! What goes through a manager because a worker and the owner of its job do not reach each other:
//! the product's own decisions (`control::relay`), with messages that may be lost on each of the
//! two ways.

use std::time::Duration;

use control::message::{
    FrameBatchAck, RenewRequest, Renewal, ReportAck, WorkerRequest, WorkerResponse,
};
use control::owner::{Event, NoAnswer};
use control::relay::{by_job, notices};
use fence::{Attempt, NodeId, ShardKey};

use super::super::plan::Mark;
use super::super::world::{Host, Packet, Relayed, Word, World};
use super::{Back, PATIENCE, PROBE_PATIENCE};

/// For the owner's answer, as in `fleet::manager::relay`.
const OWNER_WITHIN: Duration = Duration::from_millis(1_200);

/// Passed on, and not yet answered.
pub(super) struct Relay {
    back: Behind,
    until: Duration,
}

/// Who waits for it.
enum Behind {
    /// A worker that has told something.
    WorkerReport {
        worker: usize,
        life: u64,
        number: u64,
        owner: NodeId,
    },
    FrameBatch {
        worker: usize,
        life: u64,
        number: u64,
        owner: NodeId,
        job: fence::JobId,
    },
    /// What this manager has asked itself, and since when.
    WorkerRequest {
        back: Back,
        since: Duration,
    },
}

impl World {
    // ── a worker's word ────────────────────────────────────────────────────────────────────────

    /// To the owner, which is another manager. `from`: the worker, its life, the number of its
    /// message.
    pub(super) fn pass_on(&mut self, m: usize, from: (usize, u64, u64), owner: NodeId, word: Word) {
        let (worker, life, number) = from;
        let back = match &word {
            Word::FrameBatch(frames) => {
                Behind::FrameBatch { worker, life, number, owner, job: frames.job }
            }
            Word::WorkerReport(_) | Word::WorkerRequest(_) => {
                Behind::WorkerReport { worker, life, number, owner }
            }
        };
        let Some(to) = self.manager_of(owner) else { return };
        self.relay(m, to, worker, word, Relay { back, until: self.now + OWNER_WITHIN });
    }

    fn relay(&mut self, m: usize, to: usize, worker: usize, word: Word, relay: Relay) {
        let host = &mut self.managers[m];
        host.call_numbers += 1;
        let number = host.call_numbers;
        host.relays.insert(number, relay);
        if self.canary_is("fleet-no-relay") {
            return;
        }
        let life = self.life(Host::Manager(m));
        let word = Box::new(word);
        let packet = Packet::Relay { from: m, life, number, worker, word };
        self.send(Host::Manager(m), Host::Manager(to), 0, packet);
    }

    /// At the manager that a word was passed on to. Whoever is not the owner says so, and passes
    /// nothing on again.
    pub(super) fn at_relay(
        &mut self,
        m: usize,
        from: (usize, u64, u64),
        worker: usize,
        word: Word,
    ) {
        let (by, life, number) = from;
        let answer = match word {
            Word::WorkerReport(tell) => {
                let Some(job) = tell.job() else { return };
                Relayed::ReportAck(match self.tell_desk(m, job, tell) {
                    Ok(()) => ReportAck::Taken,
                    Err(_) => ReportAck::NotOwner { owner: None },
                })
            }
            Word::FrameBatch(frames) => {
                let nobody = FrameBatchAck::NotOwner { owner: None };
                Relayed::FrameBatch(self.frames_to_desk(m, &frames).unwrap_or(nobody))
            }
            Word::WorkerRequest(ask) => {
                return self.ask(m, worker, Back::Manager { m: by, life, number }, ask);
            }
        };
        self.answer_relay(m, (by, life, number), answer);
    }

    fn answer_relay(&mut self, m: usize, to: (usize, u64, u64), answer: Relayed) {
        let (by, life, number) = to;
        let packet = Packet::Relayed { number, answer: Box::new(answer) };
        self.send(Host::Manager(m), Host::Manager(by), life, packet);
    }

    /// An answer to what was passed on from here.
    pub(super) fn relayed(&mut self, m: usize, number: u64, answer: Relayed) {
        let Some(Relay { back, .. }) = self.managers[m].relays.remove(&number) else { return };
        let me = Host::Manager(m);
        self.reach(Mark::Relayed);
        match (back, answer) {
            (Behind::WorkerReport { worker, life, number, .. }, Relayed::ReportAck(told)) => {
                self.send(me, Host::Worker(worker), life, Packet::ReportAck { number, told });
            }
            (Behind::FrameBatch { worker, life, number, job, .. }, Relayed::FrameBatch(answer)) => {
                let answer = Box::new(answer);
                let packet = Packet::FramesTaken { number, job, from: m, answer };
                self.send(me, Host::Worker(worker), life, packet);
            }
            (Behind::WorkerRequest { back, since }, Relayed::WorkerResponse(answer)) => {
                let took = self.now - since;
                self.bring_back(m, back, answer, took);
            }
            _ => {}
        }
    }

    /// Without an answer of the owner, a worker hears who that is.
    pub(super) fn give_up_relays(&mut self, m: usize) {
        let now = self.now;
        let late = self.managers[m].relays.iter().filter(|(_, relay)| relay.until <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        let me = Host::Manager(m);
        for relay in late {
            match self.managers[m].relays.remove(&relay).map(|relay| relay.back) {
                Some(Behind::WorkerReport { worker, life, number, owner }) => {
                    let told = ReportAck::NotOwner { owner: Some(owner) };
                    self.send(me, Host::Worker(worker), life, Packet::ReportAck { number, told });
                }
                Some(Behind::FrameBatch { worker, life, number, owner, job }) => {
                    let answer = Box::new(FrameBatchAck::NotOwner { owner: Some(owner) });
                    let packet = Packet::FramesTaken { number, job, from: m, answer };
                    self.send(me, Host::Worker(worker), life, packet);
                }
                Some(Behind::WorkerRequest { back, .. }) => self.unanswered(m, back),
                None => {}
            }
        }
    }

    // ── an owner's question ────────────────────────────────────────────────────────────────────

    /// The worker has not answered here; it is asked once more, through whoever renewed its leases
    /// last.
    pub(super) fn ask_through(
        &mut self,
        m: usize,
        worker: usize,
        back: Back,
        ask: WorkerRequest,
        since: Duration,
    ) {
        let host = &self.managers[m];
        let through = host.renewers.through(self.workers[worker].node, host.node);
        match (back, through.and_then(|through| self.manager_of(through))) {
            (Back::Desk { .. }, Some(through)) => {
                let relay = Relay {
                    back: Behind::WorkerRequest { back, since },
                    until: self.now + PATIENCE,
                };
                self.relay(m, through, worker, Word::WorkerRequest(ask), relay);
            }
            _ => self.unanswered(m, back),
        }
    }

    fn unanswered(&mut self, m: usize, back: Back) {
        let (job, epoch, tag) = match back {
            Back::Desk { job, epoch, tag } => (job, epoch, tag),
            Back::Probe { job, epoch, tag } => {
                let Some(ways) = self.managers[m].probes.get_mut(&(job, tag)) else { return };
                *ways -= 1;
                if *ways > 0 {
                    return;
                }
                self.managers[m].probes.remove(&(job, tag));
                (job, epoch, tag)
            }
            Back::Nobody | Back::Manager { .. } => return,
        };
        let why = NoAnswer::Silent;
        self.hand_to_desk(m, job, epoch, 0..1, Event::Unanswered { tag, why });
    }

    /// The second way of a probe: the manager that renewed the worker last, or any that the leader
    /// hears. False: there is none.
    pub(super) fn probe_through(
        &mut self,
        m: usize,
        worker: usize,
        back: Back,
        ask: &WorkerRequest,
    ) -> bool {
        let host = &self.managers[m];
        let renewer = host.renewers.through(self.workers[worker].node, host.node);
        let silent = self.silent_to_leader(m);
        let mut others = self.managers.iter().map(|other| other.node);
        let heard = || others.find(|node| *node != host.node && !silent.contains(node));
        let Some(through) = renewer.or_else(heard).and_then(|node| self.manager_of(node)) else {
            return false;
        };
        let (since, until) = (self.now, self.now + PROBE_PATIENCE);
        let relay = Relay { back: Behind::WorkerRequest { back, since }, until };
        self.relay(m, through, worker, Word::WorkerRequest(ask.clone()), relay);
        true
    }

    /// A worker's answer, to whoever asked.
    pub(super) fn bring_back(
        &mut self,
        m: usize,
        back: Back,
        answer: WorkerResponse,
        took: Duration,
    ) {
        match back {
            Back::Nobody => {}
            Back::Manager { m: by, life, number } => {
                self.answer_relay(m, (by, life, number), Relayed::WorkerResponse(answer));
            }
            Back::Probe { job, epoch, tag } => {
                if self.managers[m].probes.remove(&(job, tag)).is_some() {
                    self.owner_event(m, job, epoch, Event::Answered { tag, answer, took });
                }
            }
            Back::Desk { job, epoch, tag } => {
                if let WorkerResponse::Stopped { report: Some(report) } = &answer {
                    let host = &mut self.managers[m];
                    let local = host.clock.read(self.now);
                    if let Some(desk) = host.desks.get_mut(&job) {
                        let clock = desk.owner.clock(local);
                        desk.ended(report, clock);
                    }
                }
                self.owner_event(m, job, epoch, Event::Answered { tag, answer, took });
            }
        }
    }

    // ── notices of renewals ────────────────────────────────────────────────────────────────────

    /// Owners hear who renews, whichever manager was asked.
    pub(super) fn tell_owners(
        &mut self,
        m: usize,
        renew: &RenewRequest,
        answers: &[(ShardKey, Attempt, Renewal)],
    ) {
        for (owner, attempts) in notices(&self.managers[m].view, answers) {
            let (worker, boot, steered) = (renew.worker, renew.boot, Vec::new());
            let renewed = RenewRequest { worker, boot, attempts, steered };
            match self.manager_of(owner) {
                Some(owner) if owner == m => self.granted(m, m, &renewed),
                Some(_) if self.canary_is("fleet-no-relay") => {}
                Some(owner) => {
                    let packet = Packet::Granted { from: m, renewed: Box::new(renewed) };
                    self.send(Host::Manager(m), Host::Manager(owner), 0, packet);
                }
                None => {}
            }
        }
    }

    /// A notice for the owners of these jobs.
    pub(super) fn granted(&mut self, m: usize, from: usize, renewed: &RenewRequest) {
        let by = self.managers[from].node;
        self.managers[m].renewers.note(renewed.worker, by);
        for (job, attempts) in by_job(&renewed.attempts) {
            let epoch = self.managers[m].desks.get(&job).map(|desk| desk.epoch);
            if let Some(epoch) = epoch {
                let (worker, boot) = (renewed.worker, renewed.boot);
                self.owner_event(m, job, epoch, Event::Renewed { worker, boot, attempts });
            }
        }
    }
}
