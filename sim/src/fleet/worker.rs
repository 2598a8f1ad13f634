//! A worker's host: the product's pure worker, with model engines on its cores, a disk, and the
//! post of its statistics.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{FrameBatch, FrameBatchAck, Renewal};
use control::worker::{Effect, Event, IssuedFile, Run, Settings, Worker};
use fence::{BootId, JobId, NodeId};
use ledger_state::Counters;
use stats::wire::StreamKey;

use super::book::GROUP;
use super::engine::Engine;
use super::plan::{Class, Clock, Mark};
use super::world::{Host, Item, Packet, World};
use crate::event;

/// FrameBatch go out this often, and are given up after that.
const POST_EVERY: Duration = Duration::from_millis(300);
const POST_TIMEOUT: Duration = Duration::from_secs(2);

/// A job's statistics on their way to its owner.
#[derive(Default)]
struct Post {
    owner: Option<usize>,
    failures: usize,
    under_way: Option<(u64, Duration)>,
    last: Duration,
}

/// The folder that outlives the process.
#[derive(Default)]
pub struct Disk {
    reports: BTreeMap<Run, control::message::EndReport>,
    issued: BTreeMap<Run, (BootId, Counters)>,
    pub slow: bool,
}

pub struct WorkerHost {
    pub node: NodeId,
    pub boot: BootId,
    pub clock: Clock,
    pub cores: u32,
    pub machine: Option<Worker>,
    pub engines: BTreeMap<Run, Engine>,
    pub disk: Disk,
    /// Who asked, by the number that the machine has for it.
    asked: BTreeMap<u64, (usize, u64, u64)>,
    posts: BTreeMap<JobId, Post>,
    managers: Vec<NodeId>,
    numbers: u64,
    progressed: Duration,
    pub heard: BTreeMap<usize, Duration>,
}

impl WorkerHost {
    pub fn new(number: usize, cores: u32, clock: Clock) -> Self {
        Self {
            node: NodeId(0x100 + number as u128),
            boot: BootId(0),
            clock,
            cores,
            machine: None,
            engines: BTreeMap::new(),
            disk: Disk::default(),
            asked: BTreeMap::new(),
            posts: BTreeMap::new(),
            managers: Vec::new(),
            numbers: 0,
            progressed: Duration::ZERO,
            heard: BTreeMap::new(),
        }
    }
}

impl World {
    /// A new life in the same folder.
    pub fn start_worker(&mut self, w: usize) {
        let now = self.now;
        let host = &mut self.workers[w];
        host.boot = host.boot.next();
        // A simulated worker starts again on its own machine, after its process has gone.
        let since = BootId(1);
        let settings =
            Settings { since, ..Settings::new(host.node, host.boot, GROUP.cluster, host.cores) };
        let stored = host.disk.reports.values().cloned().collect();
        let issued = host.disk.issued.iter().map(|(run, (boot, counters))| IssuedFile {
            run: *run,
            boot: *boot,
            counters: *counters,
            certain: true,
        });
        let recovered = Worker::recover(settings, stored, issued.collect(), host.clock.read(now));
        let (machine, effects) = match recovered {
            Ok(recovered) => recovered,
            Err(error) => return self.violate("fleet.recover", error.to_string()),
        };
        host.machine = Some(machine);
        host.managers.clear();
        event!("w{w} starts, boot {}", host.boot);
        self.worker_effects(w, effects);
    }

    /// `kill -9`: the folder stays.
    pub fn stop_worker(&mut self, w: usize) {
        let host = &mut self.workers[w];
        host.machine = None;
        let engines = std::mem::take(&mut host.engines);
        host.asked.clear();
        host.posts.clear();
        // What has its report on disk loses nothing.
        let kept = |run: &Run| host.disk.reports.contains_key(run);
        self.cut.extend(engines.into_keys().filter(|run| !kept(run)));
        event!("w{w} is killed");
    }

    pub fn worker_event(&mut self, w: usize, event: Event) {
        let now = self.now;
        let host = &mut self.workers[w];
        let Some(machine) = &mut host.machine else { return };
        let effects = machine.step(event, host.clock.read(now));
        if let Err(violation) = control::worker::invariant::check(machine) {
            self.violate(violation.id, violation.what);
        }
        self.worker_effects(w, effects);
    }

    fn worker_effects(&mut self, w: usize, effects: Vec<Effect>) {
        for effect in effects {
            self.worker_effect(w, effect);
        }
    }

    fn later(&mut self, w: usize, ms: std::ops::Range<u64>, event: Event) {
        let host = Host::Worker(w);
        let (at, life) = (self.now + self.some_ms(ms), self.life(host));
        self.push(at, Item::ToWorker { w, life, event: Box::new(event) });
    }

    fn worker_effect(&mut self, w: usize, effect: Effect) {
        let me = Host::Worker(w);
        match effect {
            Effect::Respond { to, answer } => {
                let Some((m, life, call)) = self.workers[w].asked.remove(&to) else { return };
                self.send(
                    me,
                    Host::Manager(m),
                    life,
                    Packet::WorkerResponse { call, answer: Box::new(answer) },
                );
            }
            Effect::Fetch { run, .. } => {
                let reachable = !self.workers[w].managers.is_empty();
                let result = if reachable { Ok(()) } else { Err("no manager".to_owned()) };
                self.later(w, 1..40, Event::Fetched { run, result });
            }
            Effect::Prepare { dispatch, .. } => {
                let job = dispatch.order.shard.job;
                let Some(order) = self.orders.get(&job) else {
                    return self.violate("fleet.unknown", format!("{job} was never submitted"));
                };
                let id = u128::from(self.rng.u64(..)) + 1;
                let engine = Engine::new(&dispatch, &order.manifest, id);
                let run = engine.run;
                let host = &mut self.workers[w];
                host.disk.issued.insert(run, (host.boot, Counters::default()));
                host.engines.insert(run, engine);
                host.posts.entry(job).or_default();
                self.later(
                    w,
                    2..120,
                    Event::Prepared { run, graceful_stop: Duration::from_secs(1) },
                );
            }
            Effect::Start { run, at, elapsed, clock } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.start(at, elapsed, clock, &mut self.target);
                    event!("w{w} starts {run} at {elapsed:?}");
                }
            }
            Effect::ExtendPermit { run, until } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.move_gate(until);
                }
            }
            Effect::WithdrawPermit { run } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.shut = true;
                }
                event!("w{w} shuts the gate of {run}");
                self.later(w, 0..5, Event::PermitWithdrawn { run });
            }
            Effect::Stop { run, how } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.halt(how);
                }
            }
            Effect::Kill { run } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.kill();
                }
            }
            Effect::GrantUnits { run, end } => {
                if let Some(engine) = self.workers[w].engines.get_mut(&run) {
                    engine.grant_units(end);
                }
            }
            Effect::Steer { .. } | Effect::GiveRows { .. } => {}
            Effect::SendRenewal { number, to, renew } => {
                if let Some(m) = self.manager_of(to) {
                    let life = self.life(me);
                    let packet =
                        Packet::RenewRequest { from: w, life, number, renew: Box::new(renew) };
                    self.send(me, Host::Manager(m), 0, packet);
                }
            }
            Effect::SendReport { number, to, report: tell } => {
                if let Some(m) = self.manager_of(to) {
                    let life = self.life(me);
                    let packet =
                        Packet::WorkerReport { from: w, life, number, tell: Box::new(tell) };
                    self.send(me, Host::Manager(m), 0, packet);
                }
            }
            Effect::Store { report } => {
                let run = Run::new(report.shard, report.attempt);
                let slow = self.workers[w].disk.slow;
                event!("w{w} reports {run}: {:?} {:?}", report.status, report.error);
                if report.error.as_deref().is_some_and(|error| error.contains("lease")) {
                    self.reach(Mark::Lapsed);
                }
                if report.error.as_deref().is_some_and(|error| error.contains("ran out")) {
                    self.watch_lapse(w, run);
                }
                if slow && self.rng.u8(..4) == 0 {
                    self.injected(Class::SlowDisk);
                    return self.later(
                        w,
                        50..900,
                        Event::Stored { run, result: Err("I/O error".into()) },
                    );
                }
                // On disk when it is said to be; a crash before that leaves the file that counts
                // requests.
                let (at, life) =
                    (self.now + self.some_ms(if slow { 50..1_500 } else { 1..20 }), self.life(me));
                self.push(at, Item::OnDisk { w, life, report });
            }
            Effect::Remove { run } => {
                let host = &mut self.workers[w];
                host.disk.reports.remove(&run);
                host.disk.issued.remove(&run);
                host.engines.remove(&run);
            }
            Effect::Drained => event!("w{w} is drained"),
        }
    }

    pub fn on_disk(&mut self, w: usize, report: control::message::EndReport) {
        let run = Run::new(report.shard, report.attempt);
        self.workers[w].disk.reports.insert(run, report);
        self.worker_event(w, Event::Stored { run, result: Ok(()) });
    }

    /// A message for a worker.
    pub fn at_worker(&mut self, w: usize, packet: Packet) {
        match packet {
            Packet::WorkerRequest { from, life, call, owner, ask } => {
                let node = owner.unwrap_or(self.managers[from].node);
                let host = &mut self.workers[w];
                host.numbers += 1;
                let id = host.numbers;
                host.asked.insert(id, (from, life, call));
                self.worker_event(w, Event::Requested { id, from: node, request: *ask });
            }
            Packet::Renewed { number, answers } => {
                let refused = |renewal: &Renewal| matches!(renewal, Renewal::Refused { .. });
                if answers.iter().any(|(_, _, renewal)| refused(renewal)) {
                    self.reach(Mark::Refused);
                }
                self.worker_event(w, Event::RenewalAnswered { number, answers });
            }
            Packet::ReportAck { number, told } => {
                self.worker_event(w, Event::ReportAnswered { number, ack: told });
            }
            Packet::FramesTaken { number, job, from, answer } => {
                self.posted(w, number, job, from, *answer);
            }
            Packet::Beat { from: Host::Manager(m), .. } => {
                let now = self.now;
                self.workers[w].heard.insert(m, now);
            }
            _ => {}
        }
    }

    /// What the threads of load have to do by now.
    pub fn run_engines(&mut self, w: usize) {
        let now = self.now;
        let local = self.workers[w].clock.read(now);
        let obeys = !self.canary_is("fleet-ignores-lease");
        let within = !self.canary_is("fleet-runs-ahead");
        let mut events = Vec::new();
        let report = now.saturating_sub(self.workers[w].progressed) >= Duration::from_secs(1);
        let mut cut = Vec::new();
        let host = &mut self.workers[w];
        for (run, engine) in &mut host.engines {
            if let Some((end, lost)) = engine.go_on(local, &mut self.target, obeys, within) {
                if lost {
                    cut.push(*run);
                }
                events.push(Event::Ended { run: *run, end });
            } else if report && !engine.ended {
                events.push(Event::Progress { run: *run, progress: engine.progress(local) });
            }
            if let Some((_, counters)) = host.disk.issued.get_mut(run) {
                let Counters { issued, begun, .. } = engine.counters;
                *counters = Counters { issued, begun, ..Counters::default() };
            }
        }
        if report {
            host.progressed = now;
        }
        self.cut.extend(cut);
        if let Some(doubled) = self.target.doubled.take() {
            self.violate("P1.send", doubled);
        }
        if let Some(repeated) = self.target.take_repeated() {
            self.violate("R5a.once", repeated);
        }
        for event in events {
            self.worker_event(w, event);
        }
    }

    /// Twenty times a second: engines, timers, post.
    pub fn beat_worker(&mut self, w: usize) {
        let now = self.now;
        if self.workers[w].machine.is_none() {
            return;
        }
        self.run_engines(w);
        let local = self.workers[w].clock.read(now);
        let alive = |m: &usize| self.is_live(Host::Worker(w), Host::Manager(*m));
        let managers: Vec<usize> = (0..self.managers.len()).filter(alive).collect();
        let mut managers: Vec<NodeId> = managers.iter().map(|m| self.managers[*m].node).collect();
        // Every worker has its own favourite.
        let favourite = w.checked_rem(managers.len()).unwrap_or(0);
        managers.rotate_left(favourite);
        let host = &mut self.workers[w];
        if managers != host.managers {
            host.managers.clone_from(&managers);
            self.worker_event(w, Event::Managers(managers));
        }
        let host = &self.workers[w];
        let due = host.machine.as_ref().and_then(Worker::next_due);
        if due.is_some_and(|due| due <= local) {
            self.worker_event(w, Event::Tick);
        }
        self.post(w);
    }

    /// Sends what the streams have, one message per job at a time.
    fn post(&mut self, w: usize) {
        let now = self.now;
        let jobs: Vec<JobId> = self.workers[w].posts.keys().copied().collect();
        for job in jobs {
            let host = &mut self.workers[w];
            let Some(post) = host.posts.get_mut(&job) else { continue };
            if let Some((_, since)) = post.under_way {
                if now - since < POST_TIMEOUT {
                    continue;
                }
                post.under_way = None;
                post.failures += 1;
                detach(&mut host.engines, job);
            }
            let Some(post) = host.posts.get_mut(&job) else { continue };
            if now - post.last < self.plan.post_every(POST_EVERY) {
                continue;
            }
            post.last = now;
            let (mut open, mut frames, mut any) = (Vec::new(), Vec::new(), false);
            for engine in host.engines.values_mut().filter(|engine| engine.run.shard.job == job) {
                let Some(sender) = &mut engine.sender else { continue };
                any = true;
                if !engine.attached {
                    open.push(sender.key());
                    continue;
                }
                while let Some(frame) = sender.next_frame() {
                    frames.push(frame.bytes.to_vec());
                }
            }
            if !any {
                let idle = !host.engines.keys().any(|run| run.shard.job == job);
                if idle {
                    host.posts.remove(&job);
                }
                continue;
            }
            let owner = post.owner.filter(|_| post.failures == 0);
            let m = owner.or_else(|| {
                let node = host.managers.get(post.failures.checked_rem(host.managers.len())?)?;
                self.managers.iter().position(|manager| manager.node == *node)
            });
            let Some(m) = m else { continue };
            host.numbers += 1;
            let number = host.numbers;
            post.under_way = Some((number, now));
            let frames = FrameBatch { job, worker: host.node, boot: host.boot, open, frames };
            let life = self.life(Host::Worker(w));
            let packet = Packet::FrameBatch { from: w, life, number, frames: Box::new(frames) };
            self.send(Host::Worker(w), Host::Manager(m), 0, packet);
        }
    }

    fn posted(&mut self, w: usize, number: u64, job: JobId, from: usize, answer: FrameBatchAck) {
        let host = &mut self.workers[w];
        let Some(post) = host.posts.get_mut(&job) else { return };
        if post.under_way.is_none_or(|(sent, _)| sent != number) {
            return;
        }
        post.under_way = None;
        match answer {
            FrameBatchAck::Taken { resume, acks, refused } => {
                (post.owner, post.failures) = (Some(from), 0);
                let mut wrong = None;
                for (key, next) in resume {
                    let Some(engine) = stream(&mut host.engines, job, key) else { continue };
                    let (Ok(next), Some(sender)) = (next, &mut engine.sender) else { continue };
                    match sender.resume(next) {
                        Ok(()) => engine.attached = true,
                        Err(error) => wrong = Some(error.to_string()),
                    }
                }
                for (key, applied, durable) in acks {
                    let engine = stream(&mut host.engines, job, key);
                    if let Some(sender) = engine.and_then(|engine| engine.sender.as_mut()) {
                        sender.acknowledge(applied, durable);
                    }
                }
                for (key, _) in refused {
                    if let Some(engine) = stream(&mut host.engines, job, key) {
                        engine.attached = false;
                    }
                }
                if let Some(wrong) = wrong {
                    self.violate("R17.resume", wrong);
                }
            }
            FrameBatchAck::NotOwner { owner } => {
                post.failures = usize::from(owner.is_none()) * (post.failures + 1);
                post.owner =
                    owner.and_then(|node| self.managers.iter().position(|m| m.node == node));
                detach(&mut host.engines, job);
            }
            FrameBatchAck::UnknownJob => {
                post.failures += 1;
                detach(&mut host.engines, job);
            }
        }
    }
}

fn stream(engines: &mut BTreeMap<Run, Engine>, job: JobId, key: StreamKey) -> Option<&mut Engine> {
    let mut engines = engines.values_mut().filter(|engine| engine.run.shard.job == job);
    engines.find(|engine| engine.sender.as_ref().is_some_and(|sender| sender.key() == key))
}

fn detach(engines: &mut BTreeMap<Run, Engine>, job: JobId) {
    for engine in engines.values_mut().filter(|engine| engine.run.shard.job == job) {
        engine.attached = false;
        if let Some(sender) = &mut engine.sender {
            sender.detach();
        }
    }
}
