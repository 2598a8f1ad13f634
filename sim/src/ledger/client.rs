//! Clients: they submit, claim, start, end, cancel and read, on what they last knew, through
//! whichever node.
//!
//! They are rude in the ways that real ones are: they retry through another node, send the same
//! report twice, reuse a key for another submission, act on knowledge that is out of date.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use control::message::Steer;
use fastrand::Rng;
use fence::{Attempt, BootId, Epoch, JobId, NodeId, ShardKey, WorkflowNo};
use ledger::{ReadLevel, Written};
use ledger_state::{
    AttemptStatus, AttemptTerms, BlobRef, Command, CreateJob, Grace, IdempotencyKey, LapseProof,
    Outcome, Payload, ReportedBy, RequestId, StopCause,
};
use tokio::sync::oneshot;

use super::agent::{Ask, Errand, JobView, Told};
use super::class::{Class, Mark};
use super::oracle::{Oracle, Ticket};
use super::world::World;
use crate::event;

/// A write whose outcome nobody knows yet.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub ticket: Ticket,
    pub request: RequestId,
    pub host: usize,
    /// The life of the host in which it was made: only that one can resolve it.
    pub start: u64,
}

/// What all clients share.
pub struct WorkerReports {
    pub world: Rc<World>,
    pub oracle: Oracle,
    pub open: RefCell<Vec<Open>>,
    /// The keys that clients submit under.
    pub keys: Vec<IdempotencyKey>,
}

pub const TENANT: &str = "tenant";

impl WorkerReports {
    pub fn new(world: Rc<World>) -> Rc<Self> {
        let keys = (0..world.plan.jobs as u64)
            .map(|sequence| IdempotencyKey { client: "sim".to_owned(), sequence, nonce: [7; 16] })
            .collect();
        Rc::new(Self { world, oracle: Oracle::default(), open: RefCell::default(), keys })
    }

    /// Brings an errand to a host; `None` if the host is down or goes down over it.
    pub async fn ask(&self, host: usize, ask: Ask, deadline: Duration) -> Option<Told> {
        let (answer, told) = oneshot::channel();
        let errand = Errand { ask, deadline, answer };
        self.world.hosts[host].inbox.borrow().as_ref()?.send(errand).ok()?;
        // The node keeps the deadline; one that does not is caught here.
        match tokio::time::timeout(deadline + Duration::from_secs(5), told).await {
            Ok(told) => told.ok(),
            Err(_) => {
                let up = *self.world.hosts[host].life.borrow() == super::world::Life::Running;
                if up && !self.world.plan.has(Class::Pause) {
                    let detail =
                        format!("n{} did not answer within the deadline and 5 s more", host + 1);
                    self.world.violate("R10.deadline", detail);
                }
                None
            }
        }
    }

    /// A write, as far as it gets. Unknown ones are kept for later.
    pub async fn write(&self, host: usize, job: JobId, command: Command, deadline: Duration) {
        if self.world.hosts[host].inbox.borrow().is_none() {
            self.world.count("calls to a host that was down");
            return;
        }
        let ticket = self.oracle.call(job, &command);
        let start = self.world.hosts[host].starts.get();
        event!("n{} <- {command:?}", host + 1);
        let told = self.ask(host, Ask::Propose(command), deadline).await;
        let Some(Told::Written(written)) = told else {
            self.world.count("writes lost with their host");
            return;
        };
        self.settle(ticket, host, start, written);
    }

    /// Takes note of how a write ended.
    fn settle(&self, ticket: Ticket, host: usize, start: u64, written: Written) {
        event!("n{} -> {written:?}", host + 1);
        match written {
            Written::Committed { reply, .. } => {
                self.world.count("writes committed");
                self.oracle.answer(&self.world, ticket, &reply);
            }
            Written::NotCommitted(why) => {
                self.world.count("writes not committed");
                event!("not committed: {why}");
                self.oracle.never(ticket);
            }
            Written::Unknown(request) => {
                self.world.count("writes unknown");
                self.world.reach(Mark::UnknownSeen);
                self.open.borrow_mut().push(Open { ticket, request, host, start });
            }
        }
    }

    /// Asks again about one of the unknown writes. False if there was none that could be asked
    /// about.
    pub async fn resolve_one(&self, deadline: Duration) -> bool {
        let open = {
            let mut all = self.open.borrow_mut();
            // A request is of one life of its node: when that is over nobody can ask, and the call
            // stays open.
            all.retain(|open| self.world.hosts[open.host].starts.get() == open.start);
            if all.is_empty() {
                return false;
            }
            all.remove(0)
        };
        let told = self.ask(open.host, Ask::Retry(open.request), deadline).await;
        let Some(Told::Written(written)) = told else { return true };
        if !matches!(written, Written::Unknown(_)) {
            self.world.count("unknown writes resolved");
            self.world.reach(Mark::UnknownResolved);
        }
        self.settle(open.ticket, open.host, open.start, written);
        true
    }

    /// A strong read, with its place in the history.
    pub async fn read(
        &self,
        host: usize,
        job: JobId,
        deadline: Duration,
    ) -> Option<Option<JobView>> {
        let ticket = self.oracle.begin_read(job);
        let ask = Ask::Read { level: ReadLevel::Strong, job };
        match self.ask(host, ask, deadline).await? {
            Told::Read(Ok(read)) => {
                let needed = Epoch { number: ticket.latest, ..Epoch::default() }.index();
                if read.applied < needed {
                    let detail = format!(
                        "n{} read at {}, but {needed} had been acknowledged before",
                        host + 1,
                        read.applied
                    );
                    self.world.violate("LEDG.strong-read", detail);
                }
                self.world.count("strong reads");
                self.oracle.end_read(ticket, read.value.as_ref().map(|view| view.seen.clone()));
                Some(read.value)
            }
            Told::Read(Err(error)) => {
                self.world.count("strong reads refused");
                self.world.reach(Mark::StrongReadRefused);
                event!("n{} refused to read: {error}", host + 1);
                None
            }
            _ => None,
        }
    }
}

/// What a report of this attempt counts; the same whoever sends it, so that totals can be foretold.
#[must_use]
pub fn counters(shard: ShardKey, attempt: Attempt) -> ledger_state::Counters {
    let issued =
        (shard.job.0 as u64 % 97 + u64::from(shard.shard) * 1_000) * 10 + u64::from(attempt.0);
    ledger_state::Counters { issued, completed: issued / 2, ..Default::default() }
}

pub struct Client {
    pub number: usize,
    pub office: Rc<WorkerReports>,
    pub random: Rng,
    /// What this client last saw of each job.
    known: BTreeMap<JobId, JobView>,
    /// A blob that was acknowledged, and may be named.
    blobs: Vec<BlobRef>,
}

/// Shards per job; few, so that clients meet.
const SHARDS: u32 = 2;
/// Jobs here have no teardowns.
const GRACE: Grace = Grace { stop_ms: 5_000, teardown_ms: 5_000, hooks: None };

impl Client {
    pub fn new(number: usize, office: Rc<WorkerReports>) -> Self {
        let random = Rng::with_seed(office.world.plan.seed.wrapping_add(number as u64 * 7_919));
        Self { number, office, random, known: BTreeMap::new(), blobs: Vec::new() }
    }

    /// Works until the faults stop.
    pub async fn work(mut self) {
        while !self.office.world.calm.get() {
            let think = self.office.world.plan.think;
            tokio::time::sleep(think.mul_f64(self.random.f64() * 2.0)).await;
            self.act().await;
        }
        let done = &self.office.world.clients_done;
        done.set(done.get() + 1);
    }

    fn pick_host(&mut self) -> usize {
        self.random.usize(0..self.office.world.plan.nodes)
    }

    fn deadline(&mut self) -> Duration {
        Duration::from_millis([200, 1_000, 3_000][self.random.usize(0..3)])
    }

    async fn act(&mut self) {
        let key = self.random.usize(0..self.office.keys.len());
        let key = self.office.keys[key].clone();
        let job = key.job_id(TENANT);
        let (host, deadline) = (self.pick_host(), self.deadline());
        match self.random.u8(0..20) {
            0..=2 => {
                if let Some(view) = Rc::clone(&self.office).read(host, job, deadline).await {
                    self.learn(job, view);
                }
            }
            3 => self.eventual_read(host, job, deadline).await,
            4 => {
                Rc::clone(&self.office).resolve_one(deadline).await;
            }
            5 => self.put_blob(host, deadline).await,
            _ => self.write(host, &key, job, deadline).await,
        }
    }

    fn learn(&mut self, job: JobId, view: Option<JobView>) {
        match view {
            Some(view) => self.known.insert(job, view),
            None => self.known.remove(&job),
        };
    }

    async fn eventual_read(&mut self, host: usize, job: JobId, deadline: Duration) {
        let ask = Ask::Read { level: ReadLevel::Eventual, job };
        let start = self.office.world.hosts[host].starts.get();
        let told = Rc::clone(&self.office).ask(host, ask, deadline).await;
        if let Some(Told::Read(Ok(read))) = told {
            self.office.world.count("eventual reads");
            self.office.world.note_eventual(host, start, read.applied);
            self.learn(job, read.value);
        }
    }

    async fn put_blob(&mut self, host: usize, deadline: Duration) {
        let length = self.random.usize(1..=3_000);
        let bytes: Vec<u8> = (0..length).map(|_| self.random.u8(..)).collect();
        let told = Rc::clone(&self.office).ask(host, Ask::PutBlob(bytes), deadline).await;
        match told {
            Some(Told::Blob(Ok(blob))) => {
                self.office.world.count("blobs put");
                self.blobs.push(blob);
            }
            Some(Told::Blob(Err(why))) => {
                self.office.world.count("blobs refused");
                event!("n{} refused a blob: {why}", host + 1);
            }
            _ => {}
        }
    }

    /// Proposes something that makes sense to this client; with duplicates switched on, sometimes
    /// twice at once.
    async fn write(&mut self, host: usize, key: &IdempotencyKey, job: JobId, deadline: Duration) {
        let command = match self.known.get(&job).cloned() {
            Some(view) => self.next_command(host, job, &view),
            None => Some(self.create(key)),
        };
        let Some(command) = command else { return };
        let office = Rc::clone(&self.office);
        // Commands that are safe to repeat by their own nature, whoever repeats them.
        let repeatable = matches!(
            command,
            Command::CreateJob(_)
                | Command::EndAttempt { under: None, .. }
                | Command::CancelJob { .. }
        );
        if repeatable && office.world.plan.has(Class::Duplicate) && self.random.u8(0..3) == 0 {
            let other = self.pick_host();
            office.world.injected(Class::Duplicate, "of a command, through another node");
            let again = office.write(other, job, command.clone(), deadline);
            tokio::join!(office.write(host, job, command, deadline), again);
        } else {
            office.write(host, job, command, deadline).await;
        }
        // Mostly a client looks at what it has done; sometimes it goes on with what it knew.
        if self.random.u8(0..3) > 0 {
            let host = self.pick_host();
            if let Some(view) = office.read(host, job, deadline).await {
                self.learn(job, view);
            }
        }
    }

    fn create(&mut self, key: &IdempotencyKey) -> Command {
        // Now and then the same key with another body.
        let body = if self.random.u8(0..8) == 0 { self.random.u8(1..4) } else { 0 };
        let plan = self.blobs.last().copied().unwrap_or(BlobRef { hash: [1; 32], bytes: 10 });
        Command::CreateJob(Box::new(CreateJob {
            tenant: TENANT.to_owned(),
            key: key.clone(),
            fingerprint: [body; 32],
            name: "job".to_owned(),
            plan,
            age_ms: 0,
            rehearsal: false,
        }))
    }

    fn next_command(&mut self, host: usize, job: JobId, view: &JobView) -> Option<Command> {
        let epoch = |number| Epoch { group: view.group, number };
        let held = view.seen.granted.map(epoch);
        let shard = self.random.u32(0..SHARDS);
        let shard = ShardKey { job, workflow: WorkflowNo(0), shard };
        let tries = view.seen.shards.get(&shard).map_or(&[][..], Vec::as_slice);
        let last = Attempt(tries.len() as u32);
        let Some(held) = held else { return self.claim(host, job, None) };
        Some(match self.random.u8(0..24) {
            0 | 1 => return self.claim(host, job, Some(held)),
            2..=4 => Command::StartAttempt {
                shard,
                epoch: held,
                attempt: last.next(),
                worker: NodeId(u128::from(self.random.u64(1..5))),
                boot: BootId(self.random.u64(1..4)),
                after: if last.0 == 0 { LapseProof::First } else { LapseProof::LeaseLapsed },
                terms: AttemptTerms { lease_ms: 6_000, ..AttemptTerms::default() },
            },
            5 | 6 if last.0 > 0 => Command::RevokeAttempt {
                shard,
                epoch: held,
                attempt: last,
                reason: "worker lost".to_owned(),
                heard_ms: None,
                suspected: false,
            },
            7..=10 if last.0 > 0 => {
                let attempt = Attempt(self.random.u32(1..=last.0));
                Command::EndAttempt {
                    shard,
                    under: self.random.bool().then_some(held),
                    attempt,
                    status: [
                        AttemptStatus::Interrupted,
                        AttemptStatus::Stopped,
                        AttemptStatus::Completed,
                    ][self.random.usize(0..3)],
                    counters: counters(shard, attempt),
                    result: self.blobs.last().copied(),
                    sent_until_ms: None,
                    word: ReportedBy::Whole,
                }
            }
            11 => Command::CommitContext {
                job,
                epoch: held,
                layer: view.seen.layers,
                context: Payload::Inline(vec![self.number as u8; 20]),
            },
            12 if self.random.bool() => Command::CancelJob {
                job,
                reason: "no longer wanted".to_owned(),
                requestor: format!("client {}", self.number),
                nonce: [self.number as u8; 16],
                grace: self.random.bool().then_some(GRACE),
            },
            13 if self.random.bool() => Command::FinishJob {
                job,
                epoch: held,
                outcome: Outcome::Completed,
                detail: String::new(),
            },
            14 => Command::ReleaseJob { job, epoch: held },
            16.. => self.course(job, held, shard, last),
            _ => self.create(&self.key_of(job)?),
        })
    }

    /// What owners decide beside attempts.
    fn course(&mut self, job: JobId, epoch: Epoch, shard: ShardKey, last: Attempt) -> Command {
        let workflow = WorkflowNo(self.random.u32(0..2));
        match self.random.u8(0..16) {
            0..=3 => {
                // Owners that follow each other compute the same division; now and then one does
                // not.
                let count = if self.random.u8(0..6) == 0 { SHARDS + 1 } else { SHARDS };
                Command::Provision { job, epoch, shards: vec![(workflow, count)] }
            }
            4 | 5 => Command::BeginLoad { job, epoch, workflows: vec![workflow] },
            6..=11 => Command::GrantRows {
                shard,
                epoch,
                attempt: last,
                set: self.random.u32(0..2),
                count: self.random.u64(1..40),
                of: 300,
            },
            12 => Command::StopJob {
                job,
                epoch,
                cause: StopCause::Aborted,
                reason: "enough".to_owned(),
            },
            13 => Command::SteerJob { job, epoch, steer: Steer::Pause },
            14 => Command::ExtendJob { job, epoch, total_ms: self.random.u64(1..10) * 1_000 },
            _ => {
                let result = self.blobs.last().copied();
                let result = result.unwrap_or(BlobRef { hash: [2; 32], bytes: 10 });
                Command::RecordResult { job, epoch, result }
            }
        }
    }

    fn key_of(&self, job: JobId) -> Option<IdempotencyKey> {
        self.office.keys.iter().find(|key| key.job_id(TENANT) == job).cloned()
    }

    fn claim(&self, host: usize, job: JobId, seen: Option<Epoch>) -> Option<Command> {
        let claimant = self.office.world.node(host)?.session();
        Some(Command::ClaimJob { job, claimant, seen })
    }
}
