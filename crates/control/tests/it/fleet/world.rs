//! A driver for the pure owner of one job: the ledger's state machine, scripted workers, a network
//! with faults. It answers what the owner asks for, and decides nothing itself.
//!
//! Time is simulated; everything that is on its way lies in one queue, so a seed gives the same run
//! each time.

mod ledgers;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::random::SplitMix64;
use control::message::{RenewRequest, Renewal, Steer, WorkerReport, WorkerRequest, WorkerResponse};
use control::owner::check::{check_effects, check_owner};
use control::owner::{
    Adoption, Conclusion, Effect, Event, Manifest, NoAnswer, Owner, Part, Policy, Settings,
    ShardState, blob_of,
};
use control::pool::Worker;
use control::routing::Routing;
use fence::{Attempt, BootId, Epoch, GroupId, Hlc, JobId, Moment, NodeId, ShardKey, WorkflowNo};
use ledger_state::{
    self, BlobRef, Command, Counters, CreateJob, Grace, IdempotencyKey, Limits, Phase, Proposal,
    Reply, RequestId, SessionId, State, Submission, check_step,
};
use plan::Priority;
use schedule::Units;
use schedule::allocation::{Basis, Need};

use crate::fleet::worker::{Behaviour, ModelWorker};

pub const GROUP: GroupId = GroupId { cluster: 7, generation: 1 };

pub fn worker(number: u128) -> NodeId {
    NodeId(0x100 + number)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A workflow that generates load on as many cores as it has users.
pub fn part(name: &str, vus: u32, seconds: u64) -> Part {
    Part {
        name: name.to_owned(),
        depends_on: Vec::new(),
        layer: 0,
        is_test: true,
        priority: Priority::Auto,
        vus_max: vus,
        need: Need { cores: vus, basis: Basis::Users { most: vus } },
        requests_max: Some(1),
        is_open: false,
        length: Duration::from_secs(seconds),
        graceful_stop: Duration::from_secs(1),
        quiet: Duration::ZERO,
        units: Units::default(),
        setup: false,
        teardown: false,
        provide: Vec::new(),
        uses: Vec::new(),
    }
}

/// A workflow whose load is a number of iterations, more than there is time for.
pub fn counted_part(name: &str, vus: u32, seconds: u64) -> Part {
    let units = Units::Shared { vus, iterations: 1_000_000 };
    Part { units, ..part(name, vus, seconds) }
}

pub fn manifest(workflows: Vec<Part>) -> Manifest {
    Manifest {
        workflows,
        setup: false,
        teardown: false,
        data: Vec::new(),
        timeout: None,
        policy: Policy::default(),
    }
}

/// How bad the network is, in parts of a hundred.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: usize,
    pub repeated: usize,
    /// Of the ledger's answers.
    pub unknown: usize,
    /// Longest delay beyond the least.
    pub slow_ms: usize,
}

enum Item {
    WorkerRequest { worker: NodeId, tag: u64, request: WorkerRequest, sent: Moment },
    Event(Event),
    Propose { tag: u64, proposal: Proposal },
    Reported(WorkerReport),
    FrameBatch,
    Hints,
}

pub struct World {
    pub now: Moment,
    pub state: State,
    pub index: u64,
    pub job: JobId,
    pub manifest: Manifest,
    pub settings: Settings,
    pub owner: Option<Owner>,
    pub workers: BTreeMap<NodeId, ModelWorker>,
    pub faults: Faults,
    pub random: SplitMix64,
    /// Every effect that was carried out, with its time.
    pub done: Vec<(Moment, Effect)>,
    pub conclusion: Option<Conclusion>,
    pub outcome: Option<ledger_state::Outcome>,
    pub turn: bool,
    /// Membership's view of who is dead, on top of who is.
    pub suspected: BTreeSet<NodeId>,
    /// A firewall refuses connections between the owner and these, and cuts those that there are.
    pub refuses: BTreeSet<NodeId>,
    /// Boots that somebody has made up in the gossip.
    pub forged: BTreeMap<NodeId, BootId>,
    /// What the manager thinks of workers, if it is not the usual.
    pub routings: BTreeMap<NodeId, Routing>,
    pub ledger_down: bool,
    /// A manager that takes the job up now has not heard of any worker yet.
    pub heard_of_nobody: bool,
    /// Nothing is heard of what runs.
    pub mute: bool,
    /// How long nobody has led the ledger: its time is behind by so much.
    pub leaderless: Duration,
    /// The time from one heartbeat to the next.
    pub hints_every: Duration,
    blobs: BTreeMap<BlobRef, Vec<u8>>,
    /// What the owner's statistics have of each attempt.
    applied: BTreeMap<(ShardKey, Attempt), Counters>,
    applied_at: BTreeMap<(ShardKey, Attempt), Duration>,
    /// Units that the owner has counted as lost.
    pub lost: BTreeMap<(ShardKey, Attempt), u64>,
    /// What the last owner has left in its checkpoint.
    memory: Vec<u8>,
    /// Its last checkpoint was not stored.
    pub forgetful: bool,
    queue: BTreeMap<(Moment, u64), (u64, Item)>,
    items: u64,
    /// Which owner something on its way belongs to.
    generation: u64,
    session: SessionId,
    seq: u64,
    cancels: u8,
    started: Moment,
}

impl World {
    pub fn new(manifest: Manifest, cores: &[u32]) -> Self {
        Self::with(manifest, cores, Settings::default(), 1)
    }

    pub fn with(manifest: Manifest, cores: &[u32], settings: Settings, seed: u64) -> Self {
        let mut workers = BTreeMap::new();
        for (number, cores) in cores.iter().enumerate() {
            let node = worker(number as u128);
            let mut model = ModelWorker::new(node, *cores, GROUP.cluster);
            for (number, part) in manifest.workflows.iter().enumerate() {
                model.lengths.insert(number as u32, part.length);
                if let Some(arrivals) = part.units.arrivals() {
                    model.rates.insert(number as u32, arrivals);
                }
            }
            workers.insert(node, model);
        }
        let start = Moment::since_boot(Duration::from_secs(1_000));
        let mut world = Self {
            now: start,
            state: State::new(GROUP, Limits { window: 1_000_000, ..Limits::default() }),
            index: 0,
            job: JobId(0),
            manifest,
            settings,
            owner: None,
            workers,
            faults: Faults::default(),
            random: SplitMix64::new(seed),
            done: Vec::new(),
            conclusion: None,
            outcome: None,
            turn: true,
            suspected: BTreeSet::new(),
            refuses: BTreeSet::new(),
            forged: BTreeMap::new(),
            routings: BTreeMap::new(),
            ledger_down: false,
            heard_of_nobody: false,
            mute: false,
            leaderless: Duration::ZERO,
            hints_every: ms(200),
            blobs: BTreeMap::new(),
            applied: BTreeMap::new(),
            applied_at: BTreeMap::new(),
            lost: BTreeMap::new(),
            memory: Vec::new(),
            forgetful: false,
            queue: BTreeMap::new(),
            items: 0,
            generation: 0,
            session: SessionId { node: NodeId(1), boot: BootId(1) },
            seq: 0,
            cancels: 0,
            started: start,
        };
        world.run(Command::OpenSession);
        let create = CreateJob {
            tenant: "acme".to_owned(),
            key: IdempotencyKey { client: "host1".to_owned(), sequence: seed, nonce: [9; 16] },
            fingerprint: [1; 32],
            name: "checkout".to_owned(),
            plan: BlobRef { hash: [1; 32], bytes: 1_000 },
            age_ms: 0,
            rehearsal: false,
        };
        match world.run(Command::CreateJob(Box::new(create))) {
            Reply::Submitted(Submission::Accepted { job, .. }) => world.job = job,
            other => panic!("{other:?}"),
        }
        let at = world.now;
        world.push_at(at, 0, Item::FrameBatch);
        world.push_at(at, 0, Item::Hints);
        world
    }

    // ── the ledger ─────────────────────────────────────────────────────────────────────────────

    /// The owner's process dies; what it had sent is on its way.
    pub fn kill_owner(&mut self) {
        if let Some(owner) = self.owner.as_ref().filter(|_| !self.forgetful) {
            self.memory = owner.memory();
        }
        self.owner = None;
        self.generation += 1;
    }

    pub fn event(&mut self, event: Event) {
        let generation = self.generation;
        self.push_at(self.now, generation, Item::Event(event));
    }

    /// Hands an event to the owner at once.
    pub fn give(&mut self, event: Event) {
        let Some(mut owner) = self.owner.take() else { return };
        let effects = owner.step(event, self.now);
        check_owner(&owner, self.record()).unwrap_or_else(|violation| panic!("{violation}"));
        self.owner = Some(owner);
        self.carry_out(effects);
    }

    pub fn hints(&self) -> Vec<Worker> {
        let hint = |model: &ModelWorker| Worker {
            node: model.node,
            boot: self.forged.get(&model.node).copied().unwrap_or(model.boot),
            total: model.total,
            free: model.free(),
            draining: model.draining,
            disk_full: model.disk_full,
            live: model.alive && !self.suspected.contains(&model.node),
            routing: self.routings.get(&model.node).copied().unwrap_or_default(),
        };
        self.workers.values().map(hint).collect()
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mine = self.owner.as_ref().is_some_and(|o| self.record().epoch == Some(o.epoch()));
        if mine {
            check_effects(&effects, self.record(), &self.manifest)
                .unwrap_or_else(|violation| panic!("{violation}"));
        }
        for effect in effects {
            self.done.push((self.now, effect.clone()));
            let generation = self.generation;
            match effect {
                Effect::Commit { tag, command } => {
                    let proposal = self.proposal(command);
                    self.push(generation, Item::Propose { tag, proposal });
                }
                Effect::Call { tag, worker, request } | Effect::Probe { tag, worker, request } => {
                    let sent = self.now;
                    self.push(generation, Item::WorkerRequest { worker, tag, request, sent });
                }
                Effect::Store { tag, blob, content } => {
                    assert_eq!(blob, blob_of(&content));
                    self.blobs.insert(blob, content);
                    self.push(generation, Item::Event(Event::Stored { tag }));
                }
                Effect::Fetch { tag, blob } => {
                    let content = self.blobs[&blob].clone();
                    self.push(generation, Item::Event(Event::Fetched { tag, content }));
                }
                Effect::Seal { shard, attempt, .. } => {
                    let counters = self.applied.get(&(shard, attempt)).copied().unwrap_or_default();
                    let totals = vec![1; 4];
                    let sealed = Event::Sealed { shard, attempt, counters, frames: 1, totals };
                    self.push(generation, Item::Event(sealed));
                }
                Effect::Conclude(conclusion) => {
                    self.conclusion = Some(*conclusion);
                    let result = Some(BlobRef { hash: [5; 32], bytes: 10 });
                    self.push(generation, Item::Event(Event::Concluded { result }));
                }
                Effect::Finished { outcome } => self.outcome = Some(outcome),
                Effect::Lost { shard, attempt, count } => {
                    self.lost.insert((shard, attempt), count);
                }
                Effect::NeverRan { .. }
                | Effect::Moved(_)
                | Effect::Noted(_)
                | Effect::Queued(_)
                | Effect::Steered { .. }
                | Effect::Deposed { .. } => {}
            }
        }
    }

    // ── the network ────────────────────────────────────────────────────────────────────────────

    fn push_at(&mut self, at: Moment, generation: u64, item: Item) {
        self.items += 1;
        self.queue.insert((at, self.items), (generation, item));
    }

    fn push(&mut self, generation: u64, item: Item) {
        let extra = self.random.below(self.faults.slow_ms as u64 + 1);
        self.push_at(self.now.after(ms(1 + extra)), generation, item);
    }

    fn chance(&mut self, percent: usize) -> bool {
        percent > 0 && self.random.below(100) < percent as u64
    }

    /// The next thing that happens. False if nothing ever will.
    pub fn go_on(&mut self) -> bool {
        let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
        let wake = self.owner.as_ref().and_then(Owner::wake);
        let timers = self.workers.values().filter(|w| w.alive).filter_map(ModelWorker::next_timer);
        let timer = timers.min();
        let Some(at) = queued.into_iter().chain(wake).chain(timer).min() else { return false };
        self.now = self.now.max(at);
        self.work();
        if queued.is_some_and(|at| at <= self.now) {
            let ((_, _), (generation, item)) = self.queue.pop_first().unwrap();
            self.happen(generation, item);
        } else if wake.is_some_and(|at| at <= self.now) {
            self.give(Event::Tick);
        }
        true
    }

    /// Lets the workers do what is due, and takes what they have to tell.
    fn work(&mut self) {
        let now = self.now;
        let mut told = Vec::new();
        let mut renewed = Vec::new();
        for model in self.workers.values_mut().filter(|model| model.alive) {
            let reaches = !model.cut_off && !self.ledger_down;
            let (worker, boot, heard) = (model.node, model.boot, model.steers_heard());
            let mut news = None;
            for run in model.runs.values_mut() {
                let order = &run.dispatch.order;
                if run.lease.renewal_due().is_none_or(|at| at > now) {
                    continue;
                }
                let attempts = vec![(order.shard, order.step.attempt)];
                let steered = vec![(order.shard.job, heard)];
                let renew = RenewRequest { worker, boot, attempts, steered };
                let mut granted = true;
                for (.., renewal) in renew.decide(&self.state) {
                    match renewal {
                        Renewal::Granted { steering, .. } if reaches => news = steering.or(news),
                        Renewal::Granted { .. } => {}
                        Renewal::Refused { .. } => granted = false,
                    }
                }
                let ticket = run.lease.renewal_sent(now);
                if let Some(ticket) = ticket.filter(|_| granted && reaches) {
                    run.lease.renewal_granted(&ticket, now);
                    let attempts = vec![(order.shard, order.step.attempt)];
                    let (worker, boot) = (model.node, model.boot);
                    if !self.refuses.contains(&worker) {
                        renewed.push(Event::Renewed { worker, boot, attempts });
                    }
                }
            }
            if let Some(steering) = news {
                model.follow(*steering, now);
            }
            model.tick(now);
            if model.cut_off || self.refuses.contains(&model.node) {
                model.told.clear();
            }
            told.append(&mut model.told);
        }
        let generation = self.generation;
        for tell in told {
            self.push(generation, Item::Reported(tell));
        }
        for event in renewed {
            self.push(generation, Item::Event(event));
        }
    }

    fn happen(&mut self, generation: u64, item: Item) {
        let current = generation == self.generation;
        match item {
            Item::WorkerRequest { worker, tag, request, sent } => {
                self.deliver(generation, worker, tag, request, sent);
            }
            Item::Event(event) if current || generation == 0 => self.give(event),
            Item::Event(_) => {}
            Item::Propose { tag, proposal } => {
                if self.ledger_down {
                    let at = self.now.after(ms(100));
                    return self.push_at(at, generation, Item::Propose { tag, proposal });
                }
                if self.chance(self.faults.unknown) {
                    // Applied or not, nobody knows yet; the shell asks again under the same
                    // request.
                    if self.chance(50) {
                        self.apply(&proposal);
                    }
                    if current {
                        self.give(Event::Unknown { tag });
                    }
                    let at = self.now.after(ms(50));
                    return self.push_at(at, generation, Item::Propose { tag, proposal });
                }
                let reply = self.apply(&proposal);
                let answer = Event::Committed { tag, reply };
                if self.chance(self.faults.repeated) {
                    self.push(generation, Item::Event(answer.clone()));
                }
                self.push(generation, Item::Event(answer));
            }
            Item::Reported(tell) => {
                if self.chance(self.faults.lost) {
                    return;
                }
                self.give(Event::Reported(tell));
            }
            Item::FrameBatch => {
                self.frames();
                self.push_at(self.now.after(ms(500)), 0, Item::FrameBatch);
            }
            Item::Hints => {
                self.advance_ledger();
                let hints = self.hints();
                self.give(Event::Workers(hints));
                self.push_at(self.now.after(self.hints_every), 0, Item::Hints);
            }
        }
    }

    fn deliver(
        &mut self,
        generation: u64,
        node: NodeId,
        tag: u64,
        request: WorkerRequest,
        sent: Moment,
    ) {
        let now = self.now;
        let lost = self.chance(self.faults.lost);
        let answer_lost = self.chance(self.faults.lost);
        let repeated = self.chance(self.faults.repeated);
        let model = self.workers.get_mut(&node).expect("a known worker");
        let refused = (!model.alive || self.refuses.contains(&node)) && !model.cut_off;
        let unreachable = refused || model.cut_off || lost;
        let silent = Event::Unanswered { tag, why: NoAnswer::Silent };
        let event = if refused {
            Event::Unanswered { tag, why: NoAnswer::Refused }
        } else if unreachable {
            silent
        } else {
            let answer = model.ask(request.clone(), now);
            if repeated {
                let again = model.ask(request, now);
                assert!(same_kind(&answer, &again), "{answer:?}, then {again:?}");
            }
            let took = now.since(sent) * 2;
            if answer_lost { silent } else { Event::Answered { tag, answer, took } }
        };
        let silent = Event::Unanswered { tag, why: NoAnswer::Silent };
        let wait = if event == silent { ms(500) } else { ms(1) };
        self.push_at(now.after(wait), generation, Item::Event(event));
    }

    /// Statistics frames, and what waits in outboxes.
    fn frames(&mut self) {
        let now = self.now;
        let mut frames = Vec::new();
        let mut told = Vec::new();
        let refuses = &self.refuses;
        let heard =
            |model: &&ModelWorker| model.alive && !model.cut_off && !refuses.contains(&model.node);
        for model in self.workers.values().filter(heard) {
            if !self.mute {
                frames.extend(model.progress(now));
            }
            told.extend(
                model.outbox.values().cloned().map(|report| WorkerReport::Ended(Box::new(report))),
            );
            for (key, run) in &model.runs {
                if run.phase == control::message::AttemptPhase::Ready {
                    let attempt = run.dispatch.order.step.attempt;
                    told.push(WorkerReport::Ready { shard: *key, attempt });
                }
            }
        }
        for (shard, attempt, counters) in frames {
            self.applied.insert((shard, attempt), counters);
            let told = self.clock();
            self.applied_at.insert((shard, attempt), told);
            self.give(Event::Progress { shard, attempt, counters, told });
        }
        let generation = self.generation;
        for tell in told {
            self.push(generation, Item::Reported(tell));
        }
    }

    /// The job's clock.
    pub fn clock(&self) -> Duration {
        self.owner.as_ref().map(|owner| owner.clock(self.now)).unwrap_or_default()
    }

    // ── for scenarios ──────────────────────────────────────────────────────────────────────────
}

fn same_kind(a: &WorkerResponse, b: &WorkerResponse) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
