//! A manager's host: sessions and proposals, claims and the queue by the product's own rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::detector::Detector;
use control::breaker::{self, Breakers, Failure, Outcome, Permit};
use control::claims::{Duty, Managers, duties};
use control::message::WorkerRequest;
use control::owner::Event;
use control::relay::Renewers;
use control::{pool, queue};
use fence::{BootId, Epoch, Hlc, JobId, NodeId};
use ledger::timekeeper::Timekeeper;
use ledger_state::{Command, Proposal, Reply, RequestId, SessionId, State, Submission};

use super::desk::Desk;
use super::plan::{Class, Clock};
use super::world::{Beat, Host, Item, World};
use crate::event;

mod desks;
mod relay;
mod silence;
mod talk;

/// A worker or a manager that was not heard of for so long is dead to this one.
pub const SILENT: Duration = Duration::from_secs(3);
/// Without an answer, an ask has failed.
const PATIENCE: Duration = Duration::from_secs(3);
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// The ledger's time moves by so much at a time; and owners hear of it as rarely.
const TIME_EVERY_MS: u64 = 200;
const TIME_TOLD_MS: u64 = 500;

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

/// Who wants the answer to a question.
#[derive(Clone, Copy, Debug)]
pub enum Back {
    /// It was a trial.
    Nobody,
    Desk {
        job: JobId,
        epoch: Epoch,
        tag: u64,
    },
    /// The same, for whoever asks on two ways at once.
    Probe {
        job: JobId,
        epoch: Epoch,
        tag: u64,
    },
    /// An owner that does not reach the worker.
    Manager {
        m: usize,
        life: u64,
        number: u64,
    },
}

/// A question that is under way.
struct Call {
    back: Back,
    sent: Duration,
    /// How long an answer is waited for.
    patience: Duration,
    worker: usize,
    ask: WorkerRequest,
    to: (NodeId, BootId),
    permit: Permit,
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
    calls: BTreeMap<u64, Call>,
    /// What was passed on to other managers.
    relays: BTreeMap<u64, relay::Relay>,
    renewers: Renewers,
    /// On how many ways an answer may still come, by job and tag.
    probes: BTreeMap<(JobId, u64), u8>,
    /// Of this manager's talk with each life of a worker.
    breakers: Breakers<(NodeId, BootId)>,
    call_numbers: u64,
    workers: Vec<pool::Worker>,
    /// Statistics of owners, newest by epoch and number. On disk.
    pub checkpoints: BTreeMap<JobId, Kept>,
    /// On disk, and its machine is not started anew.
    timekeeper: Timekeeper,
    /// Whom it hears of the group: as its leader the members, as a member the leader.
    hears: Detector<NodeId>,
    /// When it last looked, and when it last sent to the members.
    looked: Duration,
    appended: Duration,
    /// Those that it asks back, since when.
    asking: BTreeMap<usize, Duration>,
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
            relays: BTreeMap::new(),
            renewers: Renewers::default(),
            probes: BTreeMap::new(),
            breakers: Breakers::new(breaker::Settings::default()),
            call_numbers: 0,
            workers: Vec::new(),
            checkpoints: BTreeMap::new(),
            timekeeper: Timekeeper::default(),
            hears: silence::detector(),
            looked: Duration::ZERO,
            appended: Duration::ZERO,
            asking: BTreeMap::new(),
        }
    }

    pub fn session(&self) -> SessionId {
        SessionId { node: self.node, boot: self.boot }
    }
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
        host.relays.clear();
        host.renewers = Renewers::default();
        host.probes.clear();
        host.heard.clear();
        host.workers.clear();
        host.breakers.retain(|_| false);
        host.hears = silence::detector();
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
        let late = self.group_delay(m);
        self.say(m, request.seq, 1 + late..4 + late);
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
        self.leader_hears(m);
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
        let late = self.group_delay(m);
        let at = self.now + self.some_ms(1 + late..4 + late);
        self.push(at, Item::Committed { m, life, seq, reply: Box::new(reply) });
    }

    fn commit(&mut self, proposal: &Proposal) -> Option<Reply> {
        self.watch_step(proposal);
        let now_ms = self.book.state.now_ms();
        let time_ms = self.book.leader.map_or(now_ms, |leader| self.time_of(leader, now_ms));
        match self.book.apply(proposal, time_ms) {
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
                self.ask(m, worker, Back::Nobody, WorkerRequest::Forget { shard, attempt });
            }
            What::Create(number) => {
                if let Reply::Submitted(Submission::Accepted { job, .. }) = reply {
                    self.acknowledged(number, job);
                }
            }
            What::Time | What::Cancel => {}
        }
    }

    // ── twenty times a second ──────────────────────────────────────────────────────────────────

    fn roster(&self, m: usize) -> Vec<pool::Worker> {
        let heard = self.managers[m].heard.iter();
        let workers = heard.filter_map(|(host, (_, beat))| match (host, beat) {
            (Host::Worker(w), Beat::Worker { boot, figures }) => {
                let node = self.workers[*w].node;
                let live = self.is_live(Host::Manager(m), *host);
                Some(pool::Worker {
                    node,
                    boot: *boot,
                    total: figures.cores,
                    free: figures.cores_free,
                    draining: !figures.accepting && !figures.disk_full,
                    disk_full: figures.disk_full,
                    live,
                    routing: self.routing(m, (node, *boot), live, figures.accepting),
                })
            }
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
        self.keep_time(m);
        self.look_at_group(m);
        let calls = self.managers[m].calls.iter();
        let late = calls.filter(|(_, call)| now - call.sent > call.patience);
        let given_up: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in given_up {
            let Some(call) = self.managers[m].calls.remove(&number) else { continue };
            self.note(m, &call, Outcome::Failed(Failure::NoAnswer));
            self.ask_through(m, call.worker, call.back, call.ask, call.sent);
        }
        self.give_up_relays(m);
        self.try_again(m);
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
        let now_ms = host.view.now_ms();
        let cancel = known.and_then(|job| job.cancel.as_ref()).map(|cancel| {
            let left = cancel.teardown_until_ms.saturating_sub(now_ms);
            let (reason, hard) = (cancel.reason.clone(), cancel.hard.is_some());
            Event::CancelSeen { reason, hard, within: Duration::from_millis(left) }
        });
        let hard = known.and_then(|job| job.cancel.as_ref()).map(|cancel| cancel.hard.is_some());
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
        if std::mem::replace(&mut desk.cancel_told, hard) != hard {
            events.extend(cancel);
        }
        if desk.owner.wake().is_some_and(|at| at <= local) {
            events.push(Event::Tick);
        }
        if now_ms >= desk.time_told + TIME_TOLD_MS {
            desk.time_told = now_ms;
            events.push(Event::LedgerTime { now_ms });
        }
        let clock = desk.owner.clock(local);
        if let Some(checkpoint) = desk.step(clock) {
            self.keep(m, job, epoch, checkpoint.number, checkpoint.bytes);
        }
        for event in events {
            self.owner_event(m, job, epoch, event);
        }
    }

    /// What the ledger's time is by a manager's own clock.
    fn time_of(&self, m: usize, now_ms: u64) -> u64 {
        let host = &self.managers[m];
        let uptime = host.clock.read(self.now).since(fence::Moment::default());
        host.timekeeper.now(now_ms, uptime)
    }

    /// Everybody counts on from the ledger's time, and the leader moves it by that.
    fn keep_time(&mut self, m: usize) {
        let leads = self.book.leader == Some(m) && self.can_commit(m) && self.managers[m].open;
        let seen = if leads { &self.book.state } else { &self.managers[m].view }.now_ms();
        let host = &mut self.managers[m];
        let uptime = host.clock.read(self.now).since(fence::Moment::default());
        let behind = host.timekeeper.read(seen, uptime);
        let busy = host.pending.values().any(|pending| matches!(pending.what, What::Time));
        if leads && behind >= TIME_EVERY_MS && !busy {
            self.propose(m, What::Time, Command::Advance { seen_ms: seen, elapsed_ms: behind });
        }
    }

    fn do_duties(&mut self, m: usize) {
        let host = &self.managers[m];
        if !host.open {
            return;
        }
        let mut live: BTreeSet<NodeId> = BTreeSet::from([host.node]);
        for (other, at) in self.managers.iter().zip((0..).map(Host::Manager)) {
            if self.is_live(Host::Manager(m), at) {
                live.insert(other.node);
            }
        }
        let silent = self.silent_to_leader(m);
        let managers = Managers {
            me: host.session(),
            live: &live,
            silent: &silent,
            leaving: false,
            silent_ms: self.plan.silent_ms(),
        };
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
