//! One attempt between the machine and the engine: what it has counted, where its schedule stands,
//! how it ends.

mod counting;

use base::clock;
use fence::Moment;
use fence::canary::{self, Canary};
use permit::{IssuedFile, SendPermit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::message::{Dispatch, RowBlock, Steer, StopMode, Task};
use control::worker::{EngineEnd, EngineEndKind, Run};
use engine::attempt::{
    Ended, Ending, Engine, Hook, HookControl, HookError, HookSpec, HookWiring, Loaded,
    ShardControl, ShardEnd, Stop, Values, collect_provided, load_end,
};
use ledger_state::Counters;
use schedule::job::WorkflowEnd;
use schedule::rate_per_second;
use stats::Window;
use stats::wire::{Content, Generator, StreamKey};

use super::Inbox;
use super::job::Job;
use super::prepare::PrepareError;

/// How long a killed attempt may take to end, within the machine's own patience.
const KILL_GRACE: Duration = Duration::from_millis(2500);
/// A first attempt that starts this much late makes up for it: nothing of its schedule was lost
/// with anybody.
const LATE_START_MAX: Duration = Duration::from_millis(250);

pub(super) struct Attempt {
    pub run: Run,
    pub task: Task,
    pub job: Arc<Job>,
    pub permit: Arc<SendPermit>,
    pub body: Body,
    /// The engine has said that it is ready.
    pub ready: bool,
    pub prepared: bool,
    /// Rows that came while it was being made, and the units that were granted.
    rows: Vec<RowBlock>,
    units_end: Option<u64>,
    pub stream: Option<StreamKey>,
    pub issued: Option<Arc<IssuedFile>>,
    counters: Counters,
    /// Units of the schedule that attempts before have begun.
    begun_before: u64,
    started: Option<Started>,
    generator: Generator,
    swaps_asked: u64,
    swaps_heard: u64,
    /// The next counts are to be sent at once.
    hurry: bool,
    /// Signals of life of its thread. A setup's or teardown's gives none, and is taken to live.
    answers: u64,
    /// The permit was withdrawn before this swap was asked for: whoever answers it has seen it.
    shut_at: Option<u64>,
    spare: Option<Window>,
    /// A script wants the run to count as failed.
    mark: Option<String>,
}

/// What the engine has of it.
pub(super) enum Body {
    /// Being loaded.
    Making,
    Shard(Box<dyn ShardControl>, Arc<Loaded>),
    /// A setup or teardown that waits for its start.
    Waiting(Box<HookSpec>, Arc<Loaded>),
    Hook(Box<dyn HookControl>),
}

#[derive(Clone, Copy)]
struct Started {
    at: Moment,
    elapsed: Duration,
    clock: Duration,
    paused_at: Option<Moment>,
    paused: Duration,
}

impl Attempt {
    pub fn new(dispatch: &Dispatch, job: Arc<Job>) -> Self {
        let run = Run::new(dispatch.order.shard, dispatch.order.step.attempt);
        Self {
            run,
            task: dispatch.task,
            job,
            permit: SendPermit::leased(),
            body: Body::Making,
            ready: false,
            prepared: false,
            rows: Vec::new(),
            units_end: None,
            stream: None,
            issued: None,
            counters: Counters::default(),
            begun_before: dispatch.units_before,
            started: None,
            generator: Generator::default(),
            swaps_asked: 0,
            swaps_heard: 0,
            hurry: false,
            answers: 0,
            shut_at: None,
            spare: None,
            mark: None,
        }
    }

    /// It is made, and waits for the engine's word.
    pub fn made(&mut self, body: Body, stream: StreamKey, issued: Arc<IssuedFile>) {
        self.body = body;
        (self.stream, self.issued) = (Some(stream), Some(issued));
        for rows in std::mem::take(&mut self.rows) {
            self.give_rows(rows);
        }
        if let Some(end) = self.units_end.take() {
            self.grant_units(end);
        }
    }

    /// The plan's, once it can be started.
    pub fn graceful_stop(&self) -> Option<Duration> {
        let workflow = self.run.shard.workflow.0 as usize;
        match &self.body {
            Body::Shard(_, loaded) if self.ready => {
                Some(loaded.definition().workflows.get(workflow)?.load.graceful_stop)
            }
            Body::Waiting(spec, loaded) => {
                let loads = &loaded.definition().workflows;
                let own = spec.workflow.and_then(|number| loads.get(number));
                let longest = loads.iter().map(|one| one.load.graceful_stop).max();
                own.map(|one| one.load.graceful_stop).or(longest).or(Some(Duration::ZERO))
            }
            _ => None,
        }
    }

    pub fn start(
        &mut self,
        engine: &dyn Engine,
        at: Moment,
        elapsed: Duration,
        clock: Duration,
        inbox: &Inbox,
    ) {
        let first = self.run.attempt.0 <= 1 && elapsed <= LATE_START_MAX;
        // The same instant of the schedule, said in two ways.
        let (at, elapsed, clock) = match at.uptime().checked_sub(elapsed) {
            Some(uptime) if first => {
                (Moment::since_boot(uptime), Duration::ZERO, clock.saturating_sub(elapsed))
            }
            _ => (at, elapsed, clock),
        };
        self.started =
            Some(Started { at, elapsed, clock, paused_at: None, paused: Duration::ZERO });
        match std::mem::replace(&mut self.body, Body::Making) {
            Body::Shard(shard, loaded) => {
                shard.start_from(at, elapsed);
                self.body = Body::Shard(shard, loaded);
            }
            Body::Waiting(spec, loaded) => {
                let (run, inbox) = (self.run, inbox.clone());
                let heard = inbox.clone();
                let wiring = HookWiring {
                    permit: Arc::clone(&self.permit),
                    issued: self.issued.clone(),
                    reports: Arc::new(move |report| heard.report(run, report)),
                };
                match engine.run_hook(&loaded, (*spec).clone(), wiring) {
                    Ok(hook) => self.body = Body::Hook(hook),
                    Err(error) => {
                        self.body = Body::Waiting(spec, loaded);
                        let why = format!("its thread cannot be started: {error}");
                        inbox.not_made(run, PrepareError::Machine(why));
                    }
                }
            }
            other => self.body = other,
        }
    }

    pub fn give_rows(&mut self, rows: RowBlock) {
        let set = rows.set as usize;
        match &self.body {
            Body::Making => self.rows.push(rows),
            Body::Shard(shard, _) if rows.first < rows.end => {
                shard.grant_rows(set, rows.first..rows.end);
            }
            Body::Shard(shard, _) => shard.no_more_rows(set),
            // Both have their rows from the beginning.
            Body::Waiting(..) | Body::Hook(..) => {}
        }
    }

    pub fn grant_units(&mut self, end: u64) {
        match &self.body {
            Body::Making => self.units_end = self.units_end.max(Some(end)),
            Body::Shard(shard, _) => shard.grant_units(end),
            Body::Waiting(..) | Body::Hook(..) => {}
        }
    }

    pub fn steer(&mut self, steer: &Steer) {
        let now = clock::now();
        if let Some(started) = &mut self.started {
            match steer {
                Steer::Pause => {
                    started.paused_at.get_or_insert(now);
                }
                Steer::Resume => {
                    if let Some(since) = started.paused_at.take() {
                        started.paused +=
                            Duration::from_nanos(now.nanos_since(since.max(started.at)));
                    }
                }
                Steer::Vus { .. } | Steer::Rate { .. } => {}
            }
        }
        // A setup or teardown is short, and has nothing to steer.
        let Body::Shard(shard, loaded) = &self.body else { return };
        match *steer {
            Steer::Pause => shard.pause(now),
            Steer::Resume => shard.resume(now),
            Steer::Vus { vus, .. } => shard.set_vus(vus),
            Steer::Rate { per_second, from, .. } => {
                if !(per_second.is_finite() && per_second >= 0.0) {
                    tracing::warn!(run = %self.run, per_second, "this is no rate");
                    return;
                }
                let rate = rate_per_second(per_second);
                let workflow =
                    loaded.definition().workflows.get(self.run.shard.workflow.0 as usize);
                let begins = workflow.map_or(Duration::ZERO, |one| one.load.start_after);
                shard.set_rate(rate, from.saturating_sub(begins));
            }
        }
    }

    pub fn halt(&self, how: StopMode) {
        let stop = match how {
            StopMode::Graceful => Stop::Graceful,
            StopMode::Now => Stop::Now,
        };
        match &self.body {
            Body::Shard(shard, _) => shard.stop(stop),
            Body::Hook(hook) => hook.stop(stop),
            Body::Making | Body::Waiting(..) => {}
        }
    }

    pub fn kill(&self) {
        match &self.body {
            Body::Shard(shard, _) => shard.kill(KILL_GRACE),
            Body::Hook(hook) => hook.kill(KILL_GRACE),
            Body::Making | Body::Waiting(..) => {}
        }
    }

    /// Whether the engine has it, so that its end is the engine's to tell.
    pub fn is_made(&self) -> bool {
        matches!(self.body, Body::Shard(..) | Body::Hook(..))
    }

    /// Its thread has ended, late.
    pub fn is_gone(&self) -> bool {
        match &self.body {
            Body::Shard(shard, _) => shard.is_finished(),
            Body::Hook(hook) => hook.is_finished(),
            Body::Making | Body::Waiting(..) => true,
        }
    }

    /// Withdraws the permit. True: nothing can be between check and send, because it was never
    /// started.
    pub fn shut(&mut self) -> bool {
        self.permit.close();
        if self.started.is_none() || !self.is_made() {
            return true;
        }
        // What was asked before may have been answered before.
        self.ask_counts();
        self.shut_at = Some(self.swaps_asked);
        false
    }

    pub fn mark_failed(&mut self, why: String) {
        self.mark.get_or_insert(why);
    }

    /// The last of its statistics; what it leaves.
    pub fn over(&mut self, ended: Ended) -> EngineEnd {
        let Ended { how, end, values, last } = ended;
        self.generator.unrecordable += end.unrecordable;
        self.generator.vus_made = self.generator.vus_made.max(end.vus_max);
        if last.is_none() {
            self.begun_by_its_file();
        }
        let thrown = canary::active(Canary::LastCountsLost) && how != Ending::Completed;
        let is_lost = last.is_none() && self.started.is_some();
        let is_lost = is_lost && !canary::active(Canary::LossNotTold);
        let mut content = match last {
            Some(last) if !thrown => self.take(*last),
            _ => Content::default(),
        };
        self.generator.vus.clear();
        content.generator = self.generator.clone();
        let window = self.window(clock::now());
        let (frames, totals) = self
            .stream
            .and_then(|key| {
                self.job.stream(key, |sender| {
                    if is_lost {
                        sender.lose(window);
                    }
                    sender.finish(window, content);
                    let tail = postcard::to_allocvec(&sender.tail());
                    // Bytes into a vector: there is nothing that could fail.
                    (sender.cut(), tail.unwrap_or_default())
                })
            })
            .unwrap_or_default();
        self.job.nudge.notify_one();
        let (how, provided) = self.outcome(how, &end, values);
        let how = match how {
            EngineEndKind::Failed(why) => EngineEndKind::Failed(self.job.masked(why)),
            EngineEndKind::Unable(why) => EngineEndKind::Unable(self.job.masked(why)),
            how @ (EngineEndKind::Completed | EngineEndKind::Stopped) => how,
        };
        EngineEnd { how, counters: self.counters(), provided, frames, totals, log: self.job.log() }
    }

    fn outcome(
        &mut self,
        how: Ending,
        end: &ShardEnd,
        values: Option<Result<Values, HookError>>,
    ) -> (EngineEndKind, BTreeMap<String, Vec<u8>>) {
        let failed = |why: String| (EngineEndKind::Failed(why), BTreeMap::new());
        let mark = self.mark.take();
        match (how, values) {
            (Ending::Completed, _) if mark.is_some() => failed(mark.unwrap_or_default()),
            (Ending::Completed, Some(Ok(values))) => {
                let leaves = matches!(self.task, Task::Setup { .. });
                (EngineEndKind::Completed, if leaves { values } else { BTreeMap::new() })
            }
            (Ending::Completed, Some(Err(error))) => failed(error.message),
            (Ending::Completed, None) => match load_end([end]) {
                WorkflowEnd::Error(error) => failed(error),
                _ => (EngineEndKind::Completed, self.provided(end)),
            },
            (Ending::Error(error), _) if canary::active(Canary::ErrorRetried) => {
                (EngineEndKind::Unable(error), BTreeMap::new())
            }
            (Ending::Error(error), _) => failed(error),
            (Ending::Crashed, _) => failed(
                "its thread has crashed, which is a mistake of Volley; please report it".into(),
            ),
            (Ending::Stopped | Ending::LeaseLapsed | Ending::Killed | Ending::Abandoned, _) => {
                (EngineEndKind::Stopped, BTreeMap::new())
            }
        }
    }

    /// This shard's word on each key; the owner chooses among shards, or lists them all.
    fn provided(&self, end: &ShardEnd) -> BTreeMap<String, Vec<u8>> {
        let Body::Shard(_, loaded) = &self.body else { return BTreeMap::new() };
        let workflow = self.run.shard.workflow.0 as usize;
        let Some(workflow) = loaded.definition().workflows.get(workflow) else {
            return BTreeMap::new();
        };
        let mut single = workflow.provide.clone();
        for one in &mut single {
            // The list is made of the values of all shards, by the owner.
            one.collect = false;
        }
        collect_provided(&single, [end]).into_iter().collect()
    }
}

/// What the process uses, for all its attempts.
#[derive(Clone, Copy, Default)]
pub(super) struct MachineUse {
    pub memory_max: u64,
    pub descriptors: u64,
    pub descriptors_limit: u64,
}

/// Which block of steps a task runs, and whose.
pub(super) fn hook_of(task: Task) -> Option<(Hook, Option<usize>)> {
    match task {
        Task::Load => None,
        Task::Setup { of } => Some((Hook::Setup, of.map(|number| number.0 as usize))),
        Task::Teardown { of } => Some((Hook::Teardown, of.map(|number| number.0 as usize))),
    }
}
