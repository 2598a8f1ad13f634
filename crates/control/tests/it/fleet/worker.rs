//! A worker as an owner sees it: cores, a fence for commands, attempts that take their time, an
//! outbox, and leases that end.

use std::collections::BTreeMap;
use std::time::Duration;

use control::message::{
    AttemptPhase, Dispatch, EndReport, HeldAttempt, Placement, ReservationId, RowBlock, Steer,
    Steering, StopMode, Task, WorkerInventory, WorkerRefusal, WorkerReport, WorkerRequest,
    WorkerResponse,
};
use fence::{
    Admission, Attempt, BootId, Capacity, CommandFence, ExecutionLease, JobId, LeaseTerms, Moment,
    NodeId, ShardKey,
};
use ledger_state::{AttemptStatus, Counters};
use schedule::Arrivals;

use crate::fleet::open::OpenLoad;

/// What the model engine does with a shard.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    pub error: Option<String>,
    pub provided: BTreeMap<String, Vec<u8>>,
    /// Ends neither by itself nor when it is told to; only its thread can be ended.
    pub hangs: bool,
    pub cannot_run: bool,
    /// Its disk is full when it is to be prepared.
    pub unable: bool,
    pub rows: Option<u32>,
    /// How long it runs on after it was told to end gracefully.
    pub lingers: Duration,
    /// How long it takes, if that is not what the plan says.
    pub takes: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Run {
    pub dispatch: Dispatch,
    pub phase: AttemptPhase,
    pub begun: Option<Moment>,
    pub ends: Option<Moment>,
    /// How much is left of it while the job is paused, and for how long it was.
    ends_after: Option<Duration>,
    stood: Duration,
    /// It was told to end, and does so then.
    pub stops: Option<Moment>,
    pub lease: ExecutionLease,
    pub own_core: bool,
    pub rows: Vec<RowBlock>,
    /// Time in the schedule at the start.
    pub elapsed: Duration,
    /// Of a load at a rate.
    pub open: Option<OpenLoad>,
}

pub struct ModelWorker {
    pub node: NodeId,
    pub boot: BootId,
    /// The processes of the lives from this one to before `boot` are certainly gone.
    pub since: BootId,
    pub total: u32,
    pub alive: bool,
    pub draining: bool,
    pub disk_full: bool,
    /// Refuses what it says it has room for.
    pub lies: bool,
    /// No message gets through, in either direction.
    pub cut_off: bool,
    pub holds: BTreeMap<(u64, u32), (ReservationId, u32, Moment)>,
    pub runs: BTreeMap<ShardKey, Run>,
    pub outbox: BTreeMap<(ShardKey, Attempt), EndReport>,
    pub steered: Vec<Steer>,
    steer_number: u64,
    paused_at: Option<Moment>,
    pub starts: Vec<(ShardKey, Attempt, Moment, Duration)>,
    /// When each attempt generated load: the truth that nobody may double.
    pub generated: Vec<(ShardKey, Attempt, Moment, Moment)>,
    pub told: Vec<WorkerReport>,
    pub lengths: BTreeMap<u32, Duration>,
    /// Workflows with a rate, and the arrivals of attempts that are over.
    pub rates: BTreeMap<u32, Arrivals>,
    pub issued: Vec<(ShardKey, u64)>,
    pub behaviours: BTreeMap<(u32, u32), Behaviour>,
    pub context_seen: u32,
    pub dispatches: Vec<Dispatch>,
    clock: Moment,
    command_fence: CommandFence<WorkerResponse>,
    cluster: u64,
}

impl ModelWorker {
    pub fn new(node: NodeId, total: u32, cluster: u64) -> Self {
        let boot = BootId(1);
        Self {
            node,
            boot,
            since: boot,
            total,
            alive: true,
            draining: false,
            disk_full: false,
            lies: false,
            cut_off: false,
            holds: BTreeMap::new(),
            runs: BTreeMap::new(),
            outbox: BTreeMap::new(),
            steered: Vec::new(),
            steer_number: 0,
            paused_at: None,
            starts: Vec::new(),
            generated: Vec::new(),
            told: Vec::new(),
            lengths: BTreeMap::new(),
            rates: BTreeMap::new(),
            issued: Vec::new(),
            behaviours: BTreeMap::new(),
            context_seen: 0,
            dispatches: Vec::new(),
            clock: Moment::default(),
            command_fence: command_fence(boot, boot, cluster),
            cluster,
        }
    }

    pub fn free(&self) -> u32 {
        let held: u32 = self.holds.values().map(|(_, cores, _)| *cores).sum();
        let busy = self.runs.values().filter(|run| run.own_core && is_on(run)).count() as u32;
        self.total.saturating_sub(held + busy)
    }

    /// `kill -9`: what runs is gone, the outbox and the boot number are on disk.
    pub fn kill(&mut self, now: Moment) {
        self.alive = false;
        self.advance(now);
        for run in self.runs.values() {
            record(&mut self.generated, run, now);
            keep_issued(&mut self.issued, run);
        }
        self.runs.clear();
        self.holds.clear();
    }

    /// On another machine, or in a copy of its data folder: nothing is known of the process before.
    pub fn restart_elsewhere(&mut self) {
        self.since = self.boot.next();
        self.restart();
    }

    pub fn restart(&mut self) {
        self.alive = true;
        self.draining = false;
        self.boot = self.boot.next();
        self.command_fence = command_fence(self.boot, self.since, self.cluster);
        self.context_seen = 0;
    }

    pub fn next_timer(&self) -> Option<Moment> {
        let ends = self.runs.values().flat_map(|run| [run.ends, run.stops]).flatten();
        let lapses = self.runs.values().filter_map(|run| run.lease.until());
        let prepared = self
            .runs
            .values()
            .filter(|run| run.phase == AttemptPhase::Preparing)
            .map(|_| Moment::default());
        ends.chain(lapses).chain(prepared).min()
    }

    /// Prepares, ends, and lapses what is due.
    pub fn tick(&mut self, now: Moment) {
        self.clock = now;
        self.advance(now);
        self.holds.retain(|_, (_, _, until)| *until > now);
        let keys: Vec<ShardKey> = self.runs.keys().copied().collect();
        for key in keys {
            let Some(run) = self.runs.get_mut(&key) else { continue };
            let attempt = run.dispatch.order.step.attempt;
            let unable = behaviour(&self.behaviours, key).unable;
            if run.phase == AttemptPhase::Preparing && unable {
                self.end(key, AttemptStatus::Interrupted, Some("no space left"), now);
                continue;
            }
            if run.phase == AttemptPhase::Preparing {
                run.phase = AttemptPhase::Ready;
                self.told.push(WorkerReport::Ready { shard: key, attempt });
                let wants = behaviour(&self.behaviours, key).rows;
                if let Some(set) = wants {
                    self.told.push(WorkerReport::RowsWanted {
                        shard: key,
                        attempt,
                        set,
                        at_least: 10,
                    });
                }
            }
            let held = run.lease.until().is_some();
            let lapsed = held && !run.lease.may_act(now) || run.lease.ended().is_some();
            if lapsed && is_on(run) {
                self.end(key, AttemptStatus::Interrupted, Some("its lease has run out"), now);
            } else if run.stops.is_some_and(|at| at <= now) {
                self.end(key, AttemptStatus::Stopped, None, now);
            } else if run.ends.is_some_and(|at| at <= now) && is_on(run) {
                let error = behaviour(&self.behaviours, key).error;
                let status =
                    if error.is_some() { AttemptStatus::Failed } else { AttemptStatus::Completed };
                self.end(key, status, error.as_deref(), now);
            }
        }
    }

    fn end(&mut self, key: ShardKey, status: AttemptStatus, error: Option<&str>, now: Moment) {
        let Some(mut run) = self.runs.remove(&key) else { return };
        run.lease.stop(now);
        record(&mut self.generated, &run, now);
        keep_issued(&mut self.issued, &run);
        let attempt = run.dispatch.order.step.attempt;
        let provided = match status {
            AttemptStatus::Completed => behaviour(&self.behaviours, key).provided,
            _ => BTreeMap::new(),
        };
        let report = EndReport {
            shard: key,
            attempt,
            worker: self.node,
            boot: self.boot,
            status,
            error: error.map(str::to_owned),
            counters: counters(&run, now),
            provided,
            frames: 1,
            totals: vec![7; 4],
            log: String::new(),
            certain: true,
            sent_until: None,
        };
        self.outbox.insert((key, attempt), report);
        // Its answer to a repeated start stays: it was done.
    }

    /// Counts of what runs, as the frames have them.
    pub fn progress(&self, now: Moment) -> Vec<(ShardKey, Attempt, Counters)> {
        let running = self.runs.values().filter(|run| run.phase == AttemptPhase::Running);
        running
            .map(|run| {
                let order = &run.dispatch.order;
                (order.shard, order.step.attempt, counters(run, now))
            })
            .collect()
    }

    pub fn ask(&mut self, ask: WorkerRequest, now: Moment) -> WorkerResponse {
        self.tick(now);
        match ask {
            WorkerRequest::Reserve { hold, receiver, cores, within } => {
                if let Err(refusal) = self.command_fence.install(receiver, hold.job, hold.epoch) {
                    return WorkerResponse::Refused(WorkerRefusal::Fence(refusal));
                }
                if let Some((_, _, until)) = self.holds.get_mut(&name(hold)) {
                    *until = now.after(within);
                    return WorkerResponse::Done;
                }
                if self.draining {
                    return WorkerResponse::Refused(WorkerRefusal::Draining);
                }
                if self.disk_full {
                    return WorkerResponse::Refused(WorkerRefusal::DiskFull);
                }
                let free = self.free();
                if free < cores || self.lies {
                    let total = self.total;
                    return WorkerResponse::Refused(WorkerRefusal::NoCores {
                        asked: cores,
                        free,
                        total,
                    });
                }
                self.holds.insert(name(hold), (hold, cores, now.after(within)));
                WorkerResponse::Done
            }
            WorkerRequest::Release { hold, .. } => {
                self.holds.remove(&name(hold));
                WorkerResponse::Done
            }
            WorkerRequest::Dispatch(dispatch) => self.dispatch(*dispatch),
            WorkerRequest::Start {
                job,
                epoch,
                receiver,
                attempts,
                after,
                elapsed,
                steering,
                ..
            } => {
                if let Err(refusal) = self.command_fence.install(receiver, job, epoch) {
                    return WorkerResponse::Refused(WorkerRefusal::Fence(refusal));
                }
                self.follow(steering, now);
                for (key, attempt) in attempts {
                    let known = |run: &&mut Run| run.dispatch.order.step.attempt == attempt;
                    let Some(run) = self.runs.get_mut(&key).filter(known) else {
                        if self.outbox.contains_key(&(key, attempt)) {
                            continue;
                        }
                        return WorkerResponse::Refused(WorkerRefusal::UnknownAttempt);
                    };
                    if run.phase != AttemptPhase::Ready {
                        continue;
                    }
                    let at = now.after(after);
                    run.phase = AttemptPhase::Running;
                    run.begun = Some(at);
                    run.elapsed = elapsed;
                    run.open = self.rates.get(&key.workflow.0).map(|planned| {
                        OpenLoad::start(planned, &run.dispatch, elapsed, &self.steered)
                    });
                    let whole = self.lengths.get(&key.workflow.0).copied();
                    let whole = behaviour(&self.behaviours, key).takes.or(whole);
                    let length = whole.unwrap_or(Duration::from_millis(20)).saturating_sub(elapsed);
                    if !behaviour(&self.behaviours, key).hangs {
                        match self.paused_at {
                            Some(_) => run.ends_after = Some(length),
                            None => run.ends = Some(at.after(length)),
                        }
                    }
                    self.starts.push((key, attempt, at, elapsed));
                }
                WorkerResponse::Done
            }
            WorkerRequest::Stop { order, how, .. } => {
                let (key, attempt) = (order.shard, order.step.attempt);
                if let Some(report) = self.outbox.get(&(key, attempt)) {
                    return WorkerResponse::Stopped { report: Some(Box::new(report.clone())) };
                }
                match self.command_fence.admit(&order) {
                    Admission::Refused(refusal) => {
                        return WorkerResponse::Refused(WorkerRefusal::Fence(refusal));
                    }
                    Admission::Repeat(answer) if how == StopMode::Graceful => return answer,
                    _ => {}
                }
                let held = |run: &&Run| run.dispatch.order.step.attempt == attempt;
                let Some(run) = self.runs.get(&key).filter(held) else {
                    return WorkerResponse::Stopped { report: None };
                };
                if behaviour(&self.behaviours, key).hangs
                    && how == StopMode::Graceful
                    && run.begun.is_some()
                {
                    return WorkerResponse::Done;
                }
                let lingers = behaviour(&self.behaviours, key).lingers;
                if how == StopMode::Graceful && run.begun.is_some() && !lingers.is_zero() {
                    if let Some(run) = self.runs.get_mut(&key) {
                        run.stops.get_or_insert(now.after(lingers));
                    }
                    return WorkerResponse::Done;
                }
                self.end(key, AttemptStatus::Stopped, None, now);
                let report = self.outbox.get(&(key, attempt)).cloned().map(Box::new);
                WorkerResponse::Stopped { report }
            }
            WorkerRequest::Steer { job, epoch, receiver, steering } => {
                match self.command_fence.install(receiver, job, epoch) {
                    Ok(()) => {
                        self.follow(steering, now);
                        WorkerResponse::Done
                    }
                    Err(refusal) => WorkerResponse::Refused(WorkerRefusal::Fence(refusal)),
                }
            }
            WorkerRequest::Rows { shard, rows, .. } => {
                if let Some(run) = self.runs.get_mut(&shard)
                    && !run.rows.contains(&rows)
                {
                    run.rows.push(rows);
                }
                WorkerResponse::Done
            }
            WorkerRequest::Units { .. } => WorkerResponse::Done,
            WorkerRequest::Forget { shard, attempt } => {
                self.outbox.remove(&(shard, attempt));
                WorkerResponse::Done
            }
            WorkerRequest::Install { job, epoch, receiver } => {
                match self.command_fence.install(receiver, job, epoch) {
                    Ok(()) => {
                        self.holds.retain(|_, (hold, ..)| hold.job != job || hold.epoch == epoch);
                        self.holdings(Some(job), now)
                    }
                    Err(refusal) => WorkerResponse::Refused(WorkerRefusal::Fence(refusal)),
                }
            }
            WorkerRequest::Inspect { job } => self.holdings(job, now),
        }
    }

    /// What is in force. What runs stands still while the job is paused.
    pub fn follow(&mut self, steering: Steering, now: Moment) {
        if steering.number <= self.steer_number {
            return;
        }
        self.advance(now);
        self.steer_number = steering.number;
        let paused = steering.steers.contains(&Steer::Pause);
        self.steered = steering.steers;
        for (key, run) in &mut self.runs {
            if let Some(open) = &mut run.open {
                open.follow(&self.steered, key.workflow.0);
            }
        }
        match (paused, self.paused_at) {
            (true, None) => {
                self.paused_at = Some(now);
                for run in self.runs.values_mut() {
                    run.ends_after = run.ends.take().map(|at| at.since(now));
                }
            }
            (false, Some(since)) => {
                self.paused_at = None;
                for run in self.runs.values_mut() {
                    run.stood += now.since(run.begun.map_or(since, |begun| begun.max(since)));
                    run.ends = run.ends_after.take().map(|left| now.after(left));
                }
            }
            _ => {}
        }
    }

    /// Loads at a rate go on to this moment, as far as their leases let them.
    fn advance(&mut self, now: Moment) {
        for run in self.runs.values_mut() {
            let (Some(begun), Some(until)) = (run.begun, run.lease.until()) else { continue };
            let now = self.paused_at.unwrap_or(now).min(until);
            let t = (run.elapsed + now.since(begun)).saturating_sub(run.stood);
            if let Some(open) = &mut run.open {
                open.advance(t);
            }
        }
    }

    /// Every arrival that was issued here.
    pub fn arrivals(&self) -> Vec<(ShardKey, u64)> {
        let mut all = self.issued.clone();
        self.runs.values().for_each(|run| keep_issued(&mut all, run));
        all
    }

    pub fn steers_heard(&self) -> u64 {
        self.steer_number
    }

    pub fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    fn dispatch(&mut self, dispatch: Dispatch) -> WorkerResponse {
        let order = dispatch.order;
        match self.command_fence.admit(&order) {
            Admission::Refused(refusal) => {
                return WorkerResponse::Refused(WorkerRefusal::Fence(refusal));
            }
            Admission::Repeat(answer) => return answer,
            Admission::Busy => return WorkerResponse::Done,
            Admission::Enter => {}
        }
        let answer = self.enter(dispatch);
        self.command_fence.answer(&order.shard, &order.step, answer.clone());
        answer
    }

    fn enter(&mut self, dispatch: Dispatch) -> WorkerResponse {
        let key = dispatch.order.shard;
        if behaviour(&self.behaviours, key).cannot_run {
            return WorkerResponse::Refused(WorkerRefusal::CannotRun {
                why: "a secret is missing".to_owned(),
            });
        }
        if dispatch.context_version < self.context_seen {
            return WorkerResponse::Refused(WorkerRefusal::OldContext { seen: self.context_seen });
        }
        self.context_seen = dispatch.context_version;
        let own_core = match dispatch.placement {
            Placement::Own(hold) => {
                let Some((_, cores, _)) = self.holds.get_mut(&name(hold)) else {
                    return WorkerResponse::Refused(WorkerRefusal::UnknownReservation);
                };
                *cores -= 1;
                if *cores == 0 {
                    self.holds.remove(&name(hold));
                }
                true
            }
            Placement::Shared => false,
        };
        self.end(key, AttemptStatus::Interrupted, Some("replaced"), self.clock);
        self.dispatches.push(dispatch.clone());
        let attempt = dispatch.order.step.attempt;
        let lease = ExecutionLease::new(key, attempt, LeaseTerms::new(dispatch.lease));
        let run = Run {
            elapsed: dispatch.elapsed,
            dispatch,
            phase: AttemptPhase::Preparing,
            begun: None,
            ends: None,
            ends_after: None,
            stood: Duration::ZERO,
            stops: None,
            lease,
            own_core,
            rows: Vec::new(),
            open: None,
        };
        self.runs.insert(key, run);
        WorkerResponse::Done
    }

    fn holdings(&self, job: Option<JobId>, now: Moment) -> WorkerResponse {
        let mine = |key: &ShardKey| job.is_none_or(|job| key.job == job);
        let runs = self.runs.iter().filter(|(key, _)| mine(key)).map(|(key, run)| HeldAttempt {
            shard: *key,
            attempt: run.dispatch.order.step.attempt,
            epoch: run.dispatch.order.epoch,
            phase: run.phase,
            elapsed: run.begun.map_or(Duration::ZERO, |at| {
                let now = self.paused_at.unwrap_or(now);
                (run.elapsed + now.since(at)).saturating_sub(run.stood)
            }),
            ran: run.begun.map(|at| now.since(at)),
        });
        let ended =
            self.outbox.values().filter(|report| mine(&report.shard)).map(|report| HeldAttempt {
                shard: report.shard,
                attempt: report.attempt,
                epoch: fence::Epoch::default(),
                phase: AttemptPhase::Ended,
                elapsed: Duration::ZERO,
                ran: None,
            });
        WorkerResponse::Holding(Box::new(WorkerInventory {
            boot: self.boot,
            since: self.since,
            cores: self.total,
            cores_free: self.free(),
            draining: self.draining,
            attempts: runs.chain(ended).collect(),
        }))
    }

    /// Everything that was generated, what still runs among it.
    pub fn load(&self, now: Moment) -> Vec<(ShardKey, Attempt, Moment, Moment)> {
        let mut all = self.generated.clone();
        for run in self.runs.values() {
            record(&mut all, run, now);
        }
        all
    }
}

fn command_fence(boot: BootId, since: BootId, cluster: u64) -> CommandFence<WorkerResponse> {
    let capacity = Capacity { keys: 10_000, tombstones: 10_000 };
    CommandFence::new(boot, cluster, capacity, capacity).outliving(since)
}

fn name(hold: ReservationId) -> (u64, u32) {
    (hold.epoch.number, hold.number)
}

fn is_on(run: &Run) -> bool {
    run.phase != AttemptPhase::Ended
}

fn behaviour(all: &BTreeMap<(u32, u32), Behaviour>, key: ShardKey) -> Behaviour {
    all.get(&(key.workflow.0, key.shard)).cloned().unwrap_or_default()
}

fn record(generated: &mut Vec<(ShardKey, Attempt, Moment, Moment)>, run: &Run, now: Moment) {
    // Setups and teardowns are one action each; load is what must not overlap, and they must not
    // either.
    if let (Some(begun), AttemptPhase::Running) = (run.begun, run.phase)
        && begun < now
    {
        let order = &run.dispatch.order;
        generated.push((order.shard, order.step.attempt, begun, now));
    }
}

fn keep_issued(issued: &mut Vec<(ShardKey, u64)>, run: &Run) {
    let open = run.open.iter().flat_map(|open| &open.issued);
    issued.extend(open.map(|number| (run.dispatch.order.shard, *number)));
}

/// A hundred requests a second, or as many as its rate has.
fn counters(run: &Run, now: Moment) -> Counters {
    if let Some(open) = &run.open {
        let (count, begun) = (open.issued.len() as u64, open.taken - run.dispatch.units_before);
        let (issued, completed) = (count, count);
        return Counters { issued, completed, iterations: count, begun, ..Counters::default() };
    }
    let load = run.dispatch.task == Task::Load;
    let ran = run.begun.filter(|_| load).map_or(Duration::ZERO, |at| now.since(at));
    let count = u64::try_from(ran.as_millis() / 10).unwrap_or(u64::MAX);
    // One more is always under way.
    let begun = if ran.is_zero() { 0 } else { count + 1 };
    Counters { issued: count, completed: count, iterations: count, begun, ..Counters::default() }
}
