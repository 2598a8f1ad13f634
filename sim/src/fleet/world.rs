//! The world: hosts, a network between them, one queue of everything that is on its way.
//!
//! A seed decides everything, and nothing else does: one generator, one queue, maps with an order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::message::{
    EndReport, FrameBatch, FrameBatchAck, RenewRequest, Renewal, ReportAck, WorkerReport,
    WorkerRequest, WorkerResponse,
};
use control::owner::{Manifest, Settings};
use control::worker::{Figures, Run};
use control::{owner, worker};
use fastrand::Rng;
use fence::{Attempt, BootId, Epoch, JobId, NodeId, ShardKey};
use ledger_state::{BlobRef, Command, CreateJob, IdempotencyKey, Proposal, Reply};

use super::book::Book;
use super::engine::Target;
use super::lossy::Members;
use super::manager::{ManagerHost, What};
use super::plan::{self, Class, Clock, Mark, Plan};
use super::watch::Watch;
use super::worker::WorkerHost;
use crate::cluster::stream::Stream;
use crate::event;
use crate::outcome::Violation;

/// Hosts do their rounds this often.
const ROUND: Duration = Duration::from_millis(50);
const BEAT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    Manager(usize),
    Worker(usize),
}

/// What a host says of itself, as membership carries it.
#[derive(Clone, Copy, Debug)]
pub enum Beat {
    Manager,
    Worker { boot: BootId, figures: Figures },
}

#[derive(Clone, Debug)]
pub enum Packet {
    WorkerRequest {
        from: usize,
        life: u64,
        call: u64,
        /// For whom it is asked, if that is another manager.
        owner: Option<NodeId>,
        ask: Box<WorkerRequest>,
    },
    WorkerResponse {
        call: u64,
        answer: Box<WorkerResponse>,
    },
    WorkerReport {
        from: usize,
        life: u64,
        number: u64,
        tell: Box<WorkerReport>,
    },
    ReportAck {
        number: u64,
        told: ReportAck,
    },
    RenewRequest {
        from: usize,
        life: u64,
        number: u64,
        renew: Box<RenewRequest>,
    },
    Renewed {
        number: u64,
        answers: Vec<(ShardKey, Attempt, Renewal)>,
    },
    FrameBatch {
        from: usize,
        life: u64,
        number: u64,
        frames: Box<FrameBatch>,
    },
    FramesTaken {
        number: u64,
        job: JobId,
        from: usize,
        answer: Box<FrameBatchAck>,
    },
    /// To a job's owner: leases that another manager has renewed.
    Granted {
        from: usize,
        renewed: Box<RenewRequest>,
    },
    /// From one manager to another: a worker's word for the owner of its job, or the owner's for a
    /// worker.
    Relay {
        from: usize,
        life: u64,
        number: u64,
        worker: usize,
        word: Box<Word>,
    },
    Relayed {
        number: u64,
        answer: Box<Relayed>,
    },
    Beat {
        from: Host,
        beat: Beat,
    },
    /// Within the group, from the leader to a member and back; each says when the leader began.
    Group {
        from: usize,
        lane: Lane,
        began: Duration,
        answer: bool,
    },
}

/// The connections that two managers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Of everything but the group.
    Fleet,
    Raft,
    /// Whatever else the group has to say.
    Work,
}

/// What a manager passes on.
#[derive(Clone, Debug)]
pub enum Word {
    WorkerReport(WorkerReport),
    FrameBatch(FrameBatch),
    WorkerRequest(WorkerRequest),
}

/// And what comes back.
#[derive(Clone, Debug)]
pub enum Relayed {
    ReportAck(ReportAck),
    FrameBatch(FrameBatchAck),
    WorkerResponse(WorkerResponse),
}

/// What is on its way. Whatever names a life is nothing once that life is over.
pub enum Item {
    /// `life` 0: for whoever is there.
    Packet {
        to: Host,
        life: u64,
        packet: Packet,
    },
    ToWorker {
        w: usize,
        life: u64,
        event: Box<worker::Event>,
    },
    OnDisk {
        w: usize,
        life: u64,
        report: Box<EndReport>,
    },
    ToOwner {
        m: usize,
        life: u64,
        job: JobId,
        epoch: Epoch,
        event: Box<owner::Event>,
    },
    OpenDesk {
        m: usize,
        life: u64,
        job: JobId,
        epoch: Epoch,
    },
    Keep {
        m: usize,
        life: u64,
        job: JobId,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
    },
    Propose {
        m: usize,
        life: u64,
        proposal: Box<Proposal>,
    },
    Committed {
        m: usize,
        life: u64,
        seq: u64,
        reply: Box<Reply>,
    },
    Read {
        m: usize,
        own: u64,
        from: usize,
        life: u64,
        number: u64,
        renew: Box<RenewRequest>,
    },
    Submit {
        number: usize,
    },
    /// A stream on which something is missing.
    Resend {
        from: Host,
        to: Host,
        lane: Lane,
    },
    Round(Host),
    Beat(Host),
}

/// What a client wants.
pub struct Order {
    pub manifest: Manifest,
}

/// How a host is at the moment.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    /// Rises with every start and every end.
    life: u64,
    up: bool,
    /// Its processes stand still until then, and its clock does not.
    paused_until: Option<Duration>,
}

/// From one host to another: packets, each for one life of its receiver.
pub type Streams = BTreeMap<(Host, Host, Lane), Stream<(u64, Packet)>>;

#[derive(Default)]
pub struct Net {
    /// Nothing goes from the first to the second.
    pub cut: BTreeSet<(Host, Host)>,
    /// Of a hundred.
    pub lost: u8,
    pub repeated: u8,
    pub slow_ms: u64,
    /// Messages are not lost, but late: see [`super::stream`].
    pub streams: Option<Streams>,
}

pub struct World {
    pub plan: Plan,
    pub now: Duration,
    pub rng: Rng,
    pub net: Net,
    pub book: Book,
    pub workers: Vec<WorkerHost>,
    pub managers: Vec<ManagerHost>,
    pub settings: Settings,
    pub orders: BTreeMap<JobId, Order>,
    submissions: Vec<(CreateJob, bool)>,
    /// Acknowledged to their clients.
    pub acknowledged: BTreeSet<JobId>,
    pub blobs: BTreeMap<BlobRef, Vec<u8>>,
    pub target: Target,
    /// Attempts that took counts with them.
    pub cut: BTreeSet<Run>,
    conditions: BTreeMap<Host, Condition>,
    queue: BTreeMap<(Duration, u64), Item>,
    items: u64,
    /// What came while a host stood still.
    held: BTreeMap<Host, Vec<Item>>,
    pub faults: BTreeMap<String, u64>,
    pub marks: BTreeSet<String>,
    pub violations: Vec<Violation>,
    pub watch: Watch,
    members: Option<Members>,
    canary: Option<String>,
}

impl World {
    pub fn new(plan: Plan, canary: Option<String>) -> Self {
        let mut rng = Rng::with_seed(plan.seed);
        let drifts = plan.has(Class::Clock);
        let book = Book::new();
        let mut managers: Vec<ManagerHost> = (0..plan.managers)
            .map(|m| ManagerHost::new(m, Clock::draw(&mut rng, drifts), book.state.clone()))
            .collect();
        if canary.as_deref() == Some("fleet-does-not-wait") {
            // Its waits are over before leases are.
            managers.iter_mut().for_each(|host| host.clock.rate = 4_000_000);
        }
        let workers = (0..plan.workers)
            .map(|w| WorkerHost::new(w, plan.cores, Clock::draw(&mut rng, drifts)))
            .collect();
        let lossy = plan.word == plan::Word::Swim;
        let settings = Settings {
            lease: fence::LeaseTerms::new(plan.lease),
            ready_within: Duration::from_secs(20),
            place_within: Duration::from_secs(40),
            ..Settings::default()
        };
        let settings = if lossy { Settings::default() } else { settings };
        let members = lossy.then(|| Members::new(&plan));
        let mut world = Self {
            now: Duration::ZERO,
            rng,
            net: Net::default(),
            book,
            workers,
            managers,
            settings,
            orders: BTreeMap::new(),
            submissions: Vec::new(),
            acknowledged: BTreeSet::new(),
            blobs: BTreeMap::new(),
            target: Target::default(),
            cut: BTreeSet::new(),
            conditions: BTreeMap::new(),
            queue: BTreeMap::new(),
            items: 0,
            held: BTreeMap::new(),
            faults: BTreeMap::new(),
            marks: BTreeSet::new(),
            violations: Vec::new(),
            watch: Watch::default(),
            members,
            canary,
            plan,
        };
        if drifts {
            world.target.clocks_drift();
            world.injected(Class::Clock);
        }
        for host in world.hosts() {
            world.start(host);
            let first = world.some_ms(0..50);
            world.push(first, Item::Round(host));
            world.push(first, Item::Beat(host));
        }
        for number in 0..world.plan.jobs {
            world.draw_job(number);
        }
        world
    }

    fn draw_job(&mut self, number: usize) {
        let key =
            IdempotencyKey { client: "sim".to_owned(), sequence: number as u64, nonce: [7; 16] };
        let manifest = self.plan.manifest(&mut self.rng);
        let create = CreateJob {
            tenant: "tenant".to_owned(),
            key,
            fingerprint: [number as u8; 32],
            name: format!("job {number}"),
            plan: BlobRef { hash: [number as u8; 32], bytes: 10 },
            age_ms: 0,
            rehearsal: false,
        };
        self.orders.insert(create.key.job_id(&create.tenant), Order { manifest });
        self.submissions.push((create, false));
        let (first, most) = match self.plan.word {
            // Everybody knows everybody by then.
            plan::Word::Swim => (15_000, self.plan.abuse.as_millis() as u64),
            _ => (500, self.plan.abuse.as_millis() as u64 * 2 / 3),
        };
        let at = self.some_ms(first..most);
        self.push(at, Item::Submit { number });
    }

    pub fn hosts(&self) -> Vec<Host> {
        let managers = (0..self.managers.len()).map(Host::Manager);
        managers.chain((0..self.workers.len()).map(Host::Worker)).collect()
    }

    pub fn members_mut(&mut self) -> Option<&mut Members> {
        self.members.as_mut()
    }

    pub fn canary_is(&self, name: &str) -> bool {
        self.canary.as_deref() == Some(name)
    }

    pub fn manager_of(&self, node: NodeId) -> Option<usize> {
        self.managers.iter().position(|host| host.node == node)
    }

    // ── notes ──────────────────────────────────────────────────────────────────────────────────

    pub fn violate(&mut self, invariant: &str, detail: String) {
        event!("VIOLATION {invariant}: {detail}");
        if self.violations.len() < 5 {
            let at_ms = self.now.as_millis() as u64;
            self.violations.push(Violation { invariant: invariant.to_owned(), at_ms, detail });
        }
    }

    pub fn injected(&mut self, class: Class) {
        *self.faults.entry(class.name().to_owned()).or_default() += 1;
    }

    pub fn reach(&mut self, mark: Mark) {
        if !self.marks.contains(mark.name()) {
            self.marks.insert(mark.name().to_owned());
        }
    }

    // ── lives ──────────────────────────────────────────────────────────────────────────────────

    pub fn life(&self, host: Host) -> u64 {
        self.conditions.get(&host).map_or(0, |condition| condition.life)
    }

    pub fn is_up(&self, host: Host) -> bool {
        self.conditions.get(&host).is_some_and(|condition| condition.up)
    }

    /// Up, and not standing still.
    pub fn runs(&self, host: Host) -> bool {
        let condition = self.conditions.get(&host);
        condition.is_some_and(|condition| condition.up && condition.paused_until.is_none())
    }

    pub fn start(&mut self, host: Host) {
        let condition = self.conditions.entry(host).or_default();
        if condition.up {
            return;
        }
        *condition = Condition { life: condition.life + 1, up: true, paused_until: None };
        match host {
            Host::Manager(m) => self.start_manager(m),
            Host::Worker(w) => self.start_worker(w),
        }
    }

    pub fn stop(&mut self, host: Host) {
        let condition = self.conditions.entry(host).or_default();
        if !condition.up {
            return;
        }
        *condition = Condition { life: condition.life + 1, up: false, paused_until: None };
        self.held.remove(&host);
        match host {
            Host::Manager(m) => self.stop_manager(m),
            Host::Worker(w) => self.stop_worker(w),
        }
    }

    pub fn pause(&mut self, host: Host, time: Duration) {
        let until = self.now + time;
        if let Some(condition) = self.conditions.get_mut(&host).filter(|condition| condition.up) {
            condition.paused_until = Some(until);
            event!("{host:?} stands still for {time:?}");
            if let Some(members) = &mut self.members {
                members.pause(host);
            }
        }
    }

    fn wake(&mut self, host: Host) {
        let now = self.now;
        let Some(condition) = self.conditions.get_mut(&host) else { return };
        if condition.paused_until.is_none_or(|until| until > now) {
            return;
        }
        condition.paused_until = None;
        event!("{host:?} goes on");
        if let Some(members) = &mut self.members {
            members.go_on(host);
        }
        // Its threads of load do not wait until it has read its post.
        if let Host::Worker(w) = host {
            self.run_engines(w);
        }
        for item in self.held.remove(&host).unwrap_or_default() {
            self.happen(item);
        }
    }

    // ── the network and the group ──────────────────────────────────────────────────────────────

    pub fn some_ms(&mut self, ms: std::ops::Range<u64>) -> Duration {
        Duration::from_micros(
            self.rng.u64(ms.start * 1_000..(ms.end * 1_000).max(ms.start * 1_000 + 1)),
        )
    }

    pub fn push(&mut self, at: Duration, item: Item) {
        self.items += 1;
        self.queue.insert((at.max(self.now), self.items), item);
    }

    #[allow(clippy::needless_pass_by_value, reason = "it is gone, as far as the sender knows")]
    pub fn send(&mut self, from: Host, to: Host, life: u64, packet: Packet) {
        if self.net.cut.contains(&(from, to)) {
            return;
        }
        if self.net.streams.is_some() && !matches!(packet, Packet::Beat { .. }) {
            let lane = if let Packet::Group { lane, .. } = packet { lane } else { Lane::Fleet };
            return self.stream((from, to, lane), Some((life, packet)));
        }
        if self.rng.u8(..100) < self.net.lost {
            return self.injected(Class::Loss);
        }
        let copies = if self.rng.u8(..100) < self.net.repeated { 2 } else { 1 };
        if copies > 1 {
            self.injected(Class::Duplicate);
        }
        for _ in 0..copies {
            let slow = if self.rng.u8(..4) == 0 { self.net.slow_ms } else { 0 };
            let at = self.now + self.some_ms(0..2) + self.some_ms(0..slow + 1);
            if slow > 0 {
                self.injected(Class::Delay);
            }
            self.push(at, Item::Packet { to, life, packet: packet.clone() });
        }
    }

    /// A message goes into a stream, or what is missing there is sent again.
    fn stream(&mut self, way: (Host, Host, Lane), message: Option<(u64, Packet)>) {
        let (from, to, lane) = way;
        let (now, lost) = (self.now, self.net.lost);
        let Some(streams) = &mut self.net.streams else { return };
        let stream = streams.entry(way).or_default();
        let before = stream.again();
        let out = match message {
            Some(message) => stream.send(message, lost, now, &mut self.rng),
            None => stream.resend(lost, now, &mut self.rng),
        };
        let again = stream.again();
        for (life, packet) in out {
            let at = self.now + self.some_ms(1..2);
            self.push(at, Item::Packet { to, life, packet });
        }
        if let Some(again) = again.filter(|_| again != before) {
            self.injected(Class::Loss);
            self.push(again, Item::Resend { from, to, lane });
        }
    }

    /// Whether a node takes another for being there.
    pub fn is_live(&self, observer: Host, subject: Host) -> bool {
        if let Some(members) = &self.members {
            return members.is_live(observer, subject);
        }
        self.hears(observer, subject)
            || self.plan.word == plan::Word::Others
                && self.hosts().into_iter().any(|other| {
                    self.runs(other) && self.hears(observer, other) && self.hears(other, subject)
                })
    }

    fn hears(&self, observer: Host, subject: Host) -> bool {
        let at = match (observer, subject) {
            (Host::Manager(m), _) => self.managers[m].heard.get(&subject).map(|(at, _)| *at),
            (Host::Worker(w), Host::Manager(m)) => self.workers[w].heard.get(&m).copied(),
            (Host::Worker(_), Host::Worker(_)) => None,
        };
        at.is_some_and(|at| self.now - at < super::manager::SILENT)
    }

    pub fn linked(&self, a: usize, b: usize) -> bool {
        let (a, b) = (Host::Manager(a), Host::Manager(b));
        a == b || !self.net.cut.contains(&(a, b)) && !self.net.cut.contains(&(b, a))
    }

    /// The managers that run and that this one reaches; itself among them.
    pub fn reached_by(&self, m: usize) -> Vec<usize> {
        let reached = |other: &usize| self.linked(m, *other) && self.runs(Host::Manager(*other));
        (0..self.managers.len()).filter(reached).collect()
    }

    fn can_lead(&self, m: usize) -> bool {
        self.runs(Host::Manager(m)) && self.reached_by(m).len() * 2 > self.managers.len()
    }

    /// Whether what this manager proposes can be committed now, and what it reads confirmed.
    pub fn can_commit(&self, m: usize) -> bool {
        self.now >= self.book.stalled_until
            && self.runs(Host::Manager(m))
            && self
                .book
                .leader
                .is_some_and(|leader| self.can_lead(leader) && self.linked(m, leader))
    }

    fn elect(&mut self) {
        if self.book.leader.is_some_and(|leader| self.can_lead(leader)) {
            self.book.election = None;
            return;
        }
        let wait = match self.net.streams {
            // Whoever is back before the others have missed it leads on.
            Some(_) => super::lossy::ELECTION_MS,
            None => {
                self.book.leader = None;
                200..1_500
            }
        };
        let wait = self.some_ms(wait);
        let at = *self.book.election.get_or_insert(self.now + wait);
        if self.now < at {
            return;
        }
        self.book.election = None;
        let able: Vec<usize> = (0..self.managers.len()).filter(|m| self.can_lead(*m)).collect();
        if !able.is_empty() {
            let chosen = able[self.rng.usize(..able.len())];
            self.book.leader = Some(chosen);
            self.book.elections += 1;
            event!("m{chosen} is elected");
        }
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), item) = entry.remove_entry();
            self.now = at;
            crate::trace::set_time(at.as_micros() as u64);
            self.happen(item);
            if !self.violations.is_empty() {
                break;
            }
        }
        self.now = until;
        crate::trace::set_time(until.as_micros() as u64);
        if let Some(members) = &mut self.members {
            members.run(time);
        }
        self.elect();
        for host in self.hosts() {
            self.wake(host);
        }
    }

    fn happen(&mut self, item: Item) {
        let (host, life) = match &item {
            Item::Packet { to, life, .. } => (*to, *life),
            Item::ToWorker { w, life, .. } | Item::OnDisk { w, life, .. } => {
                (Host::Worker(*w), *life)
            }
            Item::ToOwner { m, life, .. }
            | Item::OpenDesk { m, life, .. }
            | Item::Committed { m, life, .. } => (Host::Manager(*m), *life),
            Item::Read { m, own, .. } => (Host::Manager(*m), *own),
            Item::Propose { m, life, proposal } => return self.proposed(*m, *life, proposal),
            Item::Keep { .. } | Item::Submit { .. } | Item::Resend { .. } => {
                return self.outside(item);
            }
            Item::Round(host) | Item::Beat(host) => {
                let host = *host;
                let every = if matches!(item, Item::Round(_)) { ROUND } else { BEAT };
                if self.runs(host) {
                    self.periodic(host, &item);
                }
                let next = self.now + every + self.some_ms(0..4);
                return self.push(next, item);
            }
        };
        if !self.is_up(host) || life != 0 && self.life(host) != life {
            return;
        }
        if !self.runs(host) {
            // What is said to a process that stands still waits in its sockets.
            self.held.entry(host).or_default().push(item);
            return;
        }
        match item {
            Item::Packet { to: Host::Manager(m), packet, .. } => self.at_manager(m, packet),
            Item::Packet { to: Host::Worker(w), packet, .. } => self.at_worker(w, packet),
            Item::ToWorker { w, event, .. } => self.worker_event(w, *event),
            Item::OnDisk { w, report, .. } => self.on_disk(w, *report),
            Item::ToOwner { m, job, epoch, event, .. } => self.owner_event(m, job, epoch, *event),
            Item::OpenDesk { m, job, epoch, .. } => self.desk(m, job, epoch),
            Item::Committed { m, seq, reply, .. } => self.committed(m, seq, *reply),
            Item::Read { m, from, life, number, renew, .. } => {
                self.renew(m, from, life, number, &renew);
            }
            Item::Propose { .. }
            | Item::Keep { .. }
            | Item::Submit { .. }
            | Item::Resend { .. }
            | Item::Round(_)
            | Item::Beat(_) => {}
        }
    }

    fn outside(&mut self, item: Item) {
        match item {
            Item::Keep { m, life, job, epoch, number, bytes } => {
                self.kept(m, life, job, epoch, number, bytes);
            }
            Item::Submit { number } => self.submit(number),
            Item::Resend { from, to, lane } => self.stream((from, to, lane), None),
            _ => {}
        }
    }

    fn periodic(&mut self, host: Host, item: &Item) {
        match (host, item) {
            (Host::Manager(m), Item::Round(_)) => self.beat_manager(m),
            (Host::Worker(w), Item::Round(_)) => self.beat_worker(w),
            (_, _) => self.beat(host),
        }
    }

    /// Membership, as far as it matters here: everybody tells the managers, managers tell
    /// everybody.
    fn beat(&mut self, host: Host) {
        let beat = match host {
            Host::Manager(_) => Beat::Manager,
            Host::Worker(w) => {
                let host = &self.workers[w];
                let Some(machine) = &host.machine else { return };
                Beat::Worker { boot: host.boot, figures: machine.figures() }
            }
        };
        for other in self.hosts() {
            let told = matches!(host, Host::Manager(_)) || matches!(other, Host::Manager(_));
            if told && other != host {
                self.send(host, other, 0, Packet::Beat { from: host, beat });
            }
        }
    }

    // ── clients ────────────────────────────────────────────────────────────────────────────────

    /// A client submits, and does so again under the same key until it is told that it was taken.
    fn submit(&mut self, number: usize) {
        let (create, done) = &self.submissions[number];
        if *done {
            return;
        }
        let create = create.clone();
        let up: Vec<usize> =
            (0..self.managers.len()).filter(|m| self.runs(Host::Manager(*m))).collect();
        if !up.is_empty() {
            let m = up[self.rng.usize(..up.len())];
            self.propose(m, What::Create(number), Command::CreateJob(Box::new(create)));
        }
        let again = self.now + self.some_ms(800..2_500);
        self.push(again, Item::Submit { number });
    }

    pub fn acknowledged(&mut self, number: usize, job: JobId) {
        self.submissions[number].1 = true;
        self.acknowledged.insert(job);
        event!("job {number} is acknowledged as {job}");
    }

    pub fn all_acknowledged(&self) -> bool {
        self.submissions.iter().all(|(_, done)| *done)
    }
}
