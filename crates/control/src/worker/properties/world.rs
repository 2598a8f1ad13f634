//! Two workers, two owners, a ledger, and a network that reorders, repeats and loses.
//!
//! The model around the workers is honest but unlucky: owners act only on what the ledger has
//! committed, one of them was replaced and does not know it; processes die, threads hang, clocks
//! jump. After every step it checks that at most one thread of a shard might send (P1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fence::invariant::{Holder, one_holder};
use fence::{Act, Attempt, BootId, Epoch, Fence, Handover, Holding, JobId, Moment, NodeId};
use fence::{FencedCommand, LeaseTerms, ShardKey, WorkflowNo};

use super::super::testing::{at, dispatch, epoch, settings};
use super::super::*;
use crate::message::*;
use ledger_state::Counters;

const JOB: JobId = JobId(1);
const SHARDS: u32 = 3;

fn terms() -> LeaseTerms {
    LeaseTerms::new(Duration::from_secs(6))
}

/// A thread of the engine. It outlives commands, not its process.
#[derive(Clone, Debug, Default)]
struct Thread {
    core: u32,
    begun: bool,
    until: Option<Moment>,
    shut: bool,
    saw_shut: bool,
    /// It ends only when it wants to: a script in an endless loop.
    stubborn: bool,
    issued: u64,
}

/// One machine: what its disk holds outlives its process.
pub(super) struct Site {
    pub worker: Worker,
    threads: BTreeMap<Run, Thread>,
    pub reports: BTreeMap<Run, EndReport>,
    /// Issued files, by the life that made them.
    pub issued: BTreeMap<Run, (BootId, u64)>,
}

#[derive(Clone, Debug)]
enum Mail {
    WorkerRequest { site: usize, from: NodeId, request: WorkerRequest },
    RenewRequest { site: usize, boot: BootId, number: u64, renew: RenewRequest },
    Renewed { site: usize, boot: BootId, number: u64, answers: Vec<(ShardKey, Attempt, Renewal)> },
    WorkerReport { site: usize, boot: BootId, number: u64, to: NodeId, report: WorkerReport },
    ReportAck { site: usize, boot: BootId, number: u64, ack: ReportAck },
    Engine { site: usize, boot: BootId, event: Event },
    Stored { site: usize, boot: BootId, report: Box<EndReport> },
}

/// A question on its way: to whom, and which attempt of which life it wants to stop.
pub(super) struct Asked {
    site: usize,
    stop: Option<(BootId, Run)>,
}

/// What the ledger says of a shard.
#[derive(Clone, Debug)]
struct Current {
    attempt: Attempt,
    site: usize,
    boot: BootId,
    handover: Option<Handover>,
}

pub(super) struct World {
    now: Moment,
    pub sites: Vec<Site>,
    mail: Vec<Mail>,
    current: BTreeMap<ShardKey, Current>,
    pub ended: BTreeMap<Run, EndReport>,
    epoch: Epoch,
    job_over: bool,
    hold: u32,
    requests: u64,
    pub open: BTreeMap<u64, Asked>,
    pub sent: BTreeMap<Run, u64>,
    /// Attempts that some life must answer for.
    pub owed: BTreeSet<Run>,
    /// What workers had counted when their processes died.
    pub counted: Vec<Counts>,
}

fn key(shard: u8) -> ShardKey {
    ShardKey { job: JOB, workflow: WorkflowNo(0), shard: u32::from(shard) % SHARDS }
}

fn node(site: usize) -> NodeId {
    NodeId(100 + site as u128)
}

fn start(
    site: usize,
    boot: BootId,
    site_files: (Vec<EndReport>, Vec<IssuedFile>),
    now: Moment,
) -> (Worker, Vec<Effect>) {
    let mut settings = settings(2);
    (settings.node, settings.boot) = (node(site), boot);
    Worker::recover(settings, site_files.0, site_files.1, now).unwrap()
}

impl World {
    pub fn new() -> Self {
        let now = at(0.0);
        let site = |site| Site {
            worker: start(site, BootId(7), (vec![], vec![]), now).0,
            threads: BTreeMap::new(),
            reports: BTreeMap::new(),
            issued: BTreeMap::new(),
        };
        let mut world = Self {
            now,
            sites: vec![site(0), site(1)],
            mail: vec![],
            current: BTreeMap::new(),
            ended: BTreeMap::new(),
            epoch: epoch(5),
            job_over: false,
            hold: 0,
            requests: 0,
            open: BTreeMap::new(),
            sent: BTreeMap::new(),
            owed: BTreeSet::new(),
            counted: vec![],
        };
        for site in 0..2 {
            world.step(site, Event::Managers(vec![NodeId::from(1), NodeId::from(2)]));
        }
        world
    }

    fn owner(&self) -> NodeId {
        NodeId::from(if self.epoch == epoch(5) { 1 } else { 2 })
    }

    fn step(&mut self, site: usize, event: Event) {
        let effects = self.sites[site].worker.step(event, self.now);
        invariant::check(&self.sites[site].worker).unwrap();
        self.carry_out(site, effects);
        self.check();
    }

    fn carry_out(&mut self, site: usize, effects: Vec<Effect>) {
        let boot = self.sites[site].worker.boot();
        for effect in effects {
            let threads = &mut self.sites[site].threads;
            let engine = |event| Mail::Engine { site, boot, event };
            match effect {
                Effect::Respond { to, answer } => {
                    let asked = self.open.remove(&to).expect("one answer to each question");
                    // That it has stopped is a proof, whether it is said at once or when its thread
                    // has seen it.
                    if let (Asked { stop: Some((boot, run)), .. }, WorkerResponse::Stopped { .. }) =
                        (asked, answer)
                    {
                        self.proven(site, boot, run);
                    }
                }
                Effect::Fetch { run, .. } => {
                    self.owed.insert(run);
                    self.mail.push(engine(Event::Fetched { run, result: Ok(()) }));
                }
                Effect::Prepare { core, dispatch } => {
                    let run = Run::new(dispatch.order.shard, dispatch.order.step.attempt);
                    let thread = Thread { core, ..Thread::default() };
                    assert!(threads.insert(run, thread).is_none(), "{run} runs once");
                    self.sites[site].issued.insert(run, (boot, 0));
                    let graceful_stop = Duration::from_secs(1);
                    self.mail.push(engine(Event::Prepared { run, graceful_stop }));
                }
                Effect::Start { run, .. } => {
                    if let Some(thread) = threads.get_mut(&run) {
                        assert!(!thread.begun, "{run} starts once");
                        thread.begun = true;
                    }
                }
                Effect::ExtendPermit { run, until } => {
                    if let Some(thread) = threads.get_mut(&run) {
                        assert!(thread.until < Some(until), "gates move forward");
                        thread.until = Some(until);
                    }
                }
                Effect::WithdrawPermit { run } => {
                    if let Some(thread) = threads.get_mut(&run) {
                        thread.shut = true;
                    }
                }
                // In the same process: nothing is lost between the engine and the worker.
                Effect::Kill { run } => match threads.get(&run).cloned() {
                    Some(Thread { stubborn: true, issued, .. }) => {
                        let counters = Counters { issued, ..Counters::default() };
                        let progress = Progress { counters, ..Progress::default() };
                        self.step(site, Event::Abandoned { run, progress, totals: Vec::new() });
                    }
                    Some(_) => self.thread_ends(site, run),
                    None => {}
                },
                Effect::SendRenewal { number, renew, .. } => {
                    self.mail.push(Mail::RenewRequest { site, boot, number, renew });
                }
                Effect::SendReport { number, to, report } => {
                    self.mail.push(Mail::WorkerReport { site, boot, number, to, report });
                }
                Effect::Store { report } => self.mail.push(Mail::Stored { site, boot, report }),
                Effect::Remove { run } => {
                    self.sites[site].reports.remove(&run);
                    self.sites[site].issued.remove(&run);
                }
                Effect::Stop { .. }
                | Effect::Steer { .. }
                | Effect::GiveRows { .. }
                | Effect::GrantUnits { .. } => {}
                Effect::Drained => {}
            }
        }
    }

    fn deliver(&mut self, mail: Mail) {
        let lives = |world: &Self, site: usize, boot| world.sites[site].worker.boot() == boot;
        match mail {
            Mail::WorkerRequest { site, from, request } => {
                self.requests += 1;
                let stop = match &request {
                    WorkerRequest::Stop { order, .. } => {
                        Some((order.receiver, Run::new(order.shard, order.step.attempt)))
                    }
                    _ => None,
                };
                self.open.insert(self.requests, Asked { site, stop });
                self.step(site, Event::Requested { id: self.requests, from, request });
            }
            Mail::RenewRequest { site, boot, number, renew } => {
                for current in self.current.values_mut() {
                    if let Some(handover) = &mut current.handover {
                        handover.boot_seen(renew.worker, renew.boot);
                    }
                }
                let answers = renew.attempts.iter().map(|(shard, attempt)| {
                    let current = self.current.get(shard);
                    let granted = !self.job_over
                        && current.is_some_and(|current| {
                            current.attempt == *attempt && current.handover.is_none()
                        });
                    let why = "not current".to_owned();
                    let said = if granted {
                        Renewal::Granted { units_end: None, steering: None }
                    } else {
                        Renewal::Refused { why }
                    };
                    (*shard, *attempt, said)
                });
                let answers = answers.collect();
                self.mail.push(Mail::Renewed { site, boot, number, answers });
            }
            Mail::Renewed { site, boot, number, answers } if lives(self, site, boot) => {
                self.step(site, Event::RenewalAnswered { number, answers });
            }
            Mail::WorkerReport { site, boot, number, to, report } => {
                let ack = if to == self.owner() || self.job_over {
                    self.ack(site, report);
                    ReportAck::Taken
                } else {
                    ReportAck::NotOwner { owner: Some(self.owner()) }
                };
                self.mail.push(Mail::ReportAck { site, boot, number, ack });
            }
            Mail::ReportAck { site, boot, number, ack } if lives(self, site, boot) => {
                self.step(site, Event::ReportAnswered { number, ack });
            }
            Mail::Engine { site, boot, event } if lives(self, site, boot) => self.step(site, event),
            Mail::Stored { site, boot, report } if lives(self, site, boot) => {
                let run = Run::new(report.shard, report.attempt);
                // A file that comes after it was removed must not stay.
                if self.sites[site].worker.outbox.get(run).is_some() {
                    self.sites[site].reports.insert(run, *report);
                }
                self.step(site, Event::Stored { run, result: Ok(()) });
            }
            Mail::Renewed { .. }
            | Mail::ReportAck { .. }
            | Mail::Engine { .. }
            | Mail::Stored { .. } => {}
        }
        self.check();
    }

    fn proven(&mut self, site: usize, boot: BootId, run: Run) {
        let by = Holding { shard: run.shard, attempt: run.attempt, worker: node(site), boot };
        if let Some(Current { handover: Some(handover), .. }) = self.current.get_mut(&run.shard) {
            handover.stop_acknowledged(&by);
        }
    }

    fn ack(&mut self, site: usize, report: WorkerReport) {
        if let WorkerReport::Ready { shard, attempt } = report {
            let Some(current) = self.current.get(&shard) else { return };
            let (receiver, epoch, after) = (current.boot, self.epoch, Duration::from_millis(100));
            let (attempts, elapsed) = (vec![(shard, attempt)], Duration::ZERO);
            let (clock, steering) = (elapsed, Steering::default());
            let job = JOB;
            let start = WorkerRequest::Start {
                job,
                epoch,
                receiver,
                attempts,
                after,
                elapsed,
                clock,
                steering,
            };
            self.ask(site, start);
            return;
        }
        let WorkerReport::Ended(report) = report else { return };
        let run = Run::new(report.shard, report.attempt);
        self.proven(site, report.boot, run);
        self.ended.entry(run).or_insert(*report);
        let Run { shard, attempt } = run;
        self.mail.push(Mail::WorkerRequest {
            site,
            from: self.owner(),
            request: WorkerRequest::Forget { shard, attempt },
        });
    }

    fn ask(&mut self, site: usize, request: WorkerRequest) {
        self.mail.push(Mail::WorkerRequest { site, from: self.owner(), request });
    }

    /// Holds a core and sends the committed attempt to it, under this epoch.
    fn send_attempt(&mut self, shard: ShardKey, epoch: Epoch, shared: bool) {
        let Some(current) = self.current.get(&shard) else { return };
        let (site, receiver, attempt) = (current.site, current.boot, current.attempt);
        self.hold += 1;
        let hold = ReservationId { job: JOB, epoch, number: self.hold };
        let within = Duration::from_secs(5);
        let mut order = dispatch(Run::new(shard, attempt), epoch, Placement::Own(hold));
        order.order.receiver = receiver;
        order.run_at_most = Duration::from_secs(30);
        if shared {
            order.placement = Placement::Shared;
        } else {
            self.ask(site, WorkerRequest::Reserve { hold, receiver, cores: 1, within });
        }
        self.ask(site, WorkerRequest::Dispatch(Box::new(order)));
    }

    /// An owner does something about a shard; `epoch` is the old one if it does not know that it
    /// was replaced.
    fn lead(&mut self, shard: ShardKey, what: u8, epoch: Epoch) {
        let up = what % 2;
        let site = usize::from(up);
        let (over, now) = (self.job_over, self.now);
        match self.current.get_mut(&shard) {
            None if over || epoch != self.epoch => {}
            None => {
                let boot = self.sites[site].worker.boot();
                let current = Current { attempt: Attempt(1), site, boot, handover: None };
                self.current.insert(shard, current);
                self.send_attempt(shard, epoch, false);
            }
            Some(current)
                if current.handover.as_ref().is_some_and(|h| h.may_start(now).is_some()) =>
            {
                if over || epoch != self.epoch || current.attempt.0 >= 5 {
                    return;
                }
                let boot = self.sites[site].worker.boot();
                let attempt = current.attempt.next();
                *current = Current { attempt, site, boot, handover: None };
                self.send_attempt(shard, epoch, what.is_multiple_of(7));
            }
            Some(current) => {
                let (site, receiver, attempt) = (current.site, current.boot, current.attempt);
                match what % 8 {
                    0 | 1 => self.send_attempt(shard, epoch, false),
                    2 | 3 => {
                        let attempts = vec![(shard, attempt)];
                        let after = Duration::from_millis(u64::from(what));
                        let elapsed = Duration::ZERO;
                        self.ask(
                            site,
                            WorkerRequest::Start {
                                job: JOB,
                                epoch,
                                receiver,
                                attempts,
                                after,
                                elapsed,
                                clock: elapsed,
                                steering: Steering::default(),
                            },
                        );
                    }
                    4 if epoch == self.epoch => {
                        let from = Holding { shard, attempt, worker: node(site), boot: receiver };
                        let revoked = Handover::revoke_seen_committed(from, terms(), now);
                        current.handover.get_or_insert(revoked);
                        // Without a stop, the worker finds out by its renewal, or by having none.
                        if what > 128 {
                            let fence = Fence { epoch, attempt };
                            let order = FencedCommand::new(receiver, shard, fence, Act::Stop);
                            let reason = "revoked".to_owned();
                            self.ask(
                                site,
                                WorkerRequest::Stop { order, how: StopMode::Now, reason },
                            );
                        }
                    }
                    5 => {
                        let steers = vec![if what > 128 { Steer::Pause } else { Steer::Resume }];
                        let steering = Steering { number: u64::from(what), steers };
                        self.ask(
                            site,
                            WorkerRequest::Steer { job: JOB, epoch, receiver, steering },
                        );
                    }
                    _ => {
                        let fence = Fence { epoch, attempt };
                        let order = FencedCommand::new(receiver, shard, fence, Act::Stop);
                        let how = if what > 128 { StopMode::Now } else { StopMode::Graceful };
                        self.ask(
                            site,
                            WorkerRequest::Stop { order, how, reason: "asked to".into() },
                        );
                    }
                }
            }
        }
    }

    /// A thread does something by itself.
    fn engine(&mut self, pick: u8, what: u8) {
        let all: Vec<(usize, Run)> = (0..2)
            .flat_map(|site| self.sites[site].threads.keys().map(move |run| (site, *run)))
            .collect();
        let Some((site, run)) = all.get(usize::from(pick) % all.len().max(1)).copied() else {
            return;
        };
        let Some(thread) = self.sites[site].threads.get_mut(&run) else { return };
        match what % 4 {
            0 => thread.stubborn = !thread.stubborn,
            1 if thread.shut => {
                thread.saw_shut = true;
                // Whoever waits for the stop hears it now; the model's owner waits for the report
                // or repeats.
                self.step(site, Event::PermitWithdrawn { run });
            }
            2 if !thread.stubborn => self.thread_ends(site, run),
            _ => {}
        }
    }

    fn thread_ends(&mut self, site: usize, run: Run) {
        let Some(thread) = self.sites[site].threads.remove(&run) else { return };
        let how = if thread.shut { EngineEndKind::Stopped } else { EngineEndKind::Completed };
        let counters = Counters { issued: thread.issued, ..Counters::default() };
        let (provided, totals, log) = (BTreeMap::new(), vec![], String::new());
        let end = EngineEnd { how, counters, provided, frames: 0, totals, log };
        self.step(site, Event::Ended { run, end });
    }

    /// The process dies and starts again with what is on its disk.
    fn restart(&mut self, site: usize) {
        let Site { worker, threads, reports, issued } = &mut self.sites[site];
        let before = worker.boot();
        self.counted.push(worker.counts());
        threads.clear();
        self.owed.retain(|run| {
            let here = worker.attempts.contains_key(run) || worker.outbox.get(*run).is_some();
            !here || issued.contains_key(run)
        });
        let files = issued.iter().map(|(run, (boot, issued))| {
            let counters = Counters { issued: *issued, ..Counters::default() };
            IssuedFile { run: *run, boot: *boot, counters, certain: true }
        });
        let files = (reports.values().cloned().collect(), files.collect());
        let (worker, effects) = start(site, before.next(), files, self.now);
        self.sites[site].worker = worker;
        self.open.retain(|_, asked| asked.site != site);
        self.carry_out(site, effects);
        self.step(site, Event::Managers(vec![NodeId::from(1), NodeId::from(2)]));
    }

    fn advance(&mut self, by: Duration) {
        self.now = self.now.after(by);
        for site in 0..2 {
            // The threads look at the clock themselves, before the worker gets to.
            let Site { threads, issued, .. } = &mut self.sites[site];
            for (run, thread) in threads {
                if thread.begun
                    && !thread.shut
                    && thread.until.is_some_and(|until| self.now < until)
                {
                    thread.issued += 1;
                    *self.sent.entry(*run).or_default() += 1;
                    issued.entry(*run).and_modify(|(_, issued)| *issued = thread.issued);
                }
            }
        }
        self.check();
        for site in 0..2 {
            self.step(site, Event::Tick);
        }
    }

    /// P1: at this instant at most one thread of each shard might send; and every such thread is
    /// known to its worker.
    fn check(&self) {
        let mut holders = Vec::new();
        for (place, site) in self.sites.iter().enumerate() {
            let boot = site.worker.boot();
            let known = invariant::holders(&site.worker, self.now);
            let taken = site.worker.taken();
            for (run, thread) in &site.threads {
                assert!(taken.contains(&thread.core), "the core of {run} is free while it runs");
                let valid = thread.until.is_some_and(|until| self.now < until);
                if thread.begun && !thread.saw_shut && valid {
                    let Run { shard, attempt } = *run;
                    let holder = Holder { shard, attempt, worker: node(place), boot };
                    assert!(known.contains(&holder), "{holder} might send unknown to its worker");
                    holders.push(holder);
                }
            }
        }
        one_holder(&holders).unwrap();
    }

    pub fn act(&mut self, (kind, a, b): (u8, u8, u8)) {
        let pick = |len: usize| usize::from(a) % len.max(1);
        match kind {
            0..=29 => {
                for mail in std::mem::take(&mut self.mail) {
                    self.deliver(mail);
                }
            }
            30..=89 if !self.mail.is_empty() => {
                let mail = self.mail.remove(pick(self.mail.len()));
                self.deliver(mail);
            }
            90..=99 if !self.mail.is_empty() => {
                let mail = self.mail[pick(self.mail.len())].clone();
                let is_inside = matches!(mail, Mail::Engine { .. } | Mail::Stored { .. });
                if !is_inside {
                    self.deliver(mail);
                }
            }
            100..=109 if !self.mail.is_empty() => {
                let place = pick(self.mail.len());
                if !matches!(self.mail[place], Mail::Engine { .. } | Mail::Stored { .. }) {
                    self.mail.remove(place);
                }
            }
            110..=159 => self.lead(key(a), b, self.epoch),
            160..=169 => self.lead(key(a), b, epoch(5)),
            170..=209 => self.engine(a, b),
            210..=235 => self.advance(Duration::from_millis(u64::from(a) * 4)),
            236..=245 => self.advance(Duration::from_millis(u64::from(a) * 20)),
            246..=248 => self.advance(Duration::from_secs(u64::from(b) * 20)),
            249 => self.epoch = epoch(9),
            250..=251 => self.restart(usize::from(b % 2)),
            _ => {}
        }
    }

    /// The job is over, the faults too. Everything must end by itself.
    pub fn settle(&mut self) {
        self.job_over = true;
        for _ in 0..400 {
            for mail in std::mem::take(&mut self.mail) {
                self.deliver(mail);
            }
            for site in 0..2 {
                let runs: Vec<Run> = self.sites[site].threads.keys().copied().collect();
                for run in runs {
                    if self.sites[site].threads[&run].shut {
                        self.thread_ends(site, run);
                    }
                }
            }
            self.advance(Duration::from_millis(500));
        }
    }
}
