//! A model of the engine that runs one attempt, and of the target that counts every request it
//! gets.
//!
//! What is not a model: the gate is checked by the worker's own clock right before a send, requests
//! are counted in a file that outlives the process before they are sent, and what was answered goes
//! through the real statistics stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::message::{Dispatch, StopMode, Task};
use control::owner::{Manifest, Part};
use control::worker::{EngineEnd, EngineEndKind, Progress, Run};
use fence::{Attempt, JobId, Moment, ShardKey, WorkflowNo};
use ledger_state::Counters;
use schedule::Units;
use stats::stream::{Sender, SenderLimits};
use stats::wire::{Content, Generator, Schema, StreamKey};
use stats::{Delta, DropCause, Layout, StageLayout, StepLayout, Window, WorkflowLayout};

/// Requests of one virtual user in a second.
const RATE: f64 = 2.0;
/// Windows are told this often; fewer than in life, so that a seed costs less.
const WINDOW: Duration = Duration::from_millis(500);

/// What the system under test has seen: the truth.
#[derive(Default)]
pub struct Target {
    pub requests: BTreeMap<JobId, u64>,
    /// Begun according to the files of all attempts, which are written first.
    pub issued: BTreeMap<JobId, u64>,
    /// The highest attempt that has sent anything for a shard.
    senders: BTreeMap<ShardKey, Attempt>,
    /// Two attempts at one shard were at it at the same time.
    pub doubled: Option<String>,
    /// Of shards whose load has units that can be counted: those below this one have been begun.
    units: BTreeMap<ShardKey, u64>,
    /// Loads of which at least one attempt was started.
    pub started: BTreeSet<(JobId, WorkflowNo)>,
    /// Loads of which an attempt was told to start in the middle of its schedule.
    pub joined: BTreeSet<(JobId, WorkflowNo)>,
    /// Loads of which an attempt came to the end of its time with units left.
    pub out_of_time: BTreeSet<(JobId, WorkflowNo)>,
    /// A unit was begun by two attempts.
    repeated: Option<String>,
    drifts: bool,
    /// Arrivals that were begun by two attempts because clocks drift.
    pub repeats: BTreeMap<(JobId, WorkflowNo), u64>,
}

impl Target {
    fn take(&mut self, run: Run, count: u64) {
        *self.requests.entry(run.shard.job).or_default() += count;
        let last = self.senders.entry(run.shard).or_insert(run.attempt);
        if *last > run.attempt {
            self.doubled.get_or_insert(format!("{run} sends after attempt {last} has begun to"));
        }
        *last = run.attempt.max(*last);
    }

    /// Units `from..end` are begun.
    fn begin(&mut self, run: Run, from: u64, end: u64, open: bool) {
        let begun = self.units.entry(run.shard).or_default();
        let again = end.min(*begun).saturating_sub(from);
        if again > 0 && open && self.drifts {
            *self.repeats.entry((run.shard.job, run.shard.workflow)).or_default() += again;
        } else if again > 0 {
            self.repeated
                .get_or_insert(format!("{run} begins unit {from}, and {begun} were begun"));
        }
        *begun = end.max(*begun);
    }

    /// Clocks of hosts drift apart. Arrivals follow from a clock, so a new attempt may repeat some
    /// then.
    pub fn clocks_drift(&mut self) {
        self.drifts = true;
    }

    pub fn take_repeated(&mut self) -> Option<String> {
        self.repeated.take()
    }

    /// Units of a workflow that have been begun, or are past.
    pub fn begun(&self, job: JobId, workflow: WorkflowNo) -> u64 {
        let of = |(shard, _): &(&ShardKey, &u64)| (shard.job, shard.workflow) == (job, workflow);
        self.units.iter().filter(of).map(|(_, begun)| *begun).sum()
    }
}

/// Half of what there is time for.
pub fn half_of_the_time(vus: u32, length: Duration) -> u64 {
    (f64::from(vus) * RATE * length.as_secs_f64() / 2.0) as u64
}

/// Arrivals as quick as users would be.
pub fn as_arrivals(vus: u32, length: Duration) -> Units {
    let rate = ((f64::from(vus) * RATE) as u64, Duration::from_secs(1));
    Units::Arrivals { start: rate, stages: vec![(rate.0, rate.1, length)] }
}

/// How many units a workflow has, where the plan says so.
pub fn planned(part: &Part) -> Option<u64> {
    part.units.of_shard(0, 1, part.length, &[])
}

/// A load whose units can be counted: iterations, or arrivals at a rate.
struct Pile {
    units: Units,
    shard: u32,
    shards: u32,
    whole: u64,
    /// Begun, or past, those of attempts before included.
    taken: u64,
    /// Those of attempts before.
    spent: u64,
    /// Units below it may be begun.
    end: u64,
}

impl Pile {
    fn new(part: &Part, dispatch: &Dispatch) -> Option<Self> {
        let (shard, shards) = (dispatch.order.shard.shard, dispatch.shards.max(1));
        let whole = part.units.of_shard(shard, shards, part.length, &[])?;
        let (spent, end) = (dispatch.units_before, dispatch.units_end.unwrap_or(whole));
        let units = part.units.clone();
        Some(Self { units, shard, shards, whole, taken: spent.min(whole), spent, end })
    }

    /// Arrivals that are due by then; `None`: users begin the next iteration when they have ended
    /// the last one.
    fn arrived(&self, elapsed: Duration) -> Option<u64> {
        let open = self.units.is_open();
        open.then(|| self.units.of_shard(self.shard, self.shards, elapsed, &[]).unwrap_or(0))
    }
}

/// The names of what a job counts: one step in one stage for each workflow, and a workflow for
/// setup and teardown.
pub fn schema(manifest: &Manifest) -> Schema {
    let mut layout = Layout::default();
    let names = manifest.workflows.iter().map(|part| part.name.clone());
    for (at, name) in names.chain(["setup".to_owned()]).enumerate() {
        layout.workflows.push(WorkflowLayout {
            name: name.clone(),
            steps: at..at + 1,
            checks: 0..0,
            stages: at..at + 1,
            synthetic: at == manifest.workflows.len(),
            about: stats::WorkflowFacts::default(),
        });
        layout.steps.push(StepLayout {
            name: name.clone(),
            workflow: at,
            method: "GET".to_owned(),
            route: "/".to_owned(),
            tags: Vec::new(),
            when: Vec::new(),
        });
        layout.stages.push(StageLayout { name, workflow: at });
    }
    Schema::new(Arc::new(layout), None)
}

struct Started {
    at: Moment,
    elapsed: Duration,
    clock: Duration,
}

/// One attempt on its thread.
pub struct Engine {
    pub run: Run,
    task: Task,
    /// Its share of the workflow's users.
    vus: f64,
    length: Duration,
    pile: Option<Pile>,
    until: Option<Moment>,
    pub shut: bool,
    started: Option<Started>,
    /// Requests that were due so far, sent or not.
    due: u64,
    in_flight: u64,
    pub counters: Counters,
    /// Answered and not yet told.
    fresh: u64,
    /// What there was no time for, and not yet told.
    rest: u64,
    /// Why.
    cause: DropCause,
    told: Moment,
    pub stopping: bool,
    /// What it ends with, at its next look.
    killed: bool,
    pub sender: Option<Sender>,
    /// ReportAck by whoever took the stream.
    pub attached: bool,
    schema: Schema,
    pub ended: bool,
}

impl Engine {
    pub fn new(dispatch: &Dispatch, manifest: &Manifest, id: u128) -> Self {
        let order = &dispatch.order;
        let run = Run::new(order.shard, order.step.attempt);
        let number = order.shard.workflow.0;
        let part = manifest.workflows.get(number as usize);
        let schema = schema(manifest);
        let key = StreamKey {
            workflow: number,
            shard: order.shard.shard,
            attempt: order.step.attempt.0,
            id,
        };
        Self {
            run,
            task: dispatch.task,
            vus: part.map_or(0.0, |part| f64::from(part.vus_max))
                / f64::from(dispatch.shards.max(1)),
            length: part.map_or(Duration::from_millis(200), |part| part.length),
            pile: part.and_then(|part| Pile::new(part, dispatch)),
            until: None,
            shut: false,
            started: None,
            due: 0,
            in_flight: 0,
            counters: Counters::default(),
            fresh: 0,
            rest: 0,
            cause: DropCause::TimeOver,
            told: Moment::default(),
            stopping: false,
            killed: false,
            sender: part
                .is_some()
                .then(|| Sender::new(key, schema.clone(), SenderLimits::default())),
            attached: false,
            schema,
            ended: false,
        }
    }

    pub fn start(&mut self, at: Moment, elapsed: Duration, clock: Duration, target: &mut Target) {
        self.started.get_or_insert(Started { at, elapsed, clock });
        self.due = (elapsed.as_secs_f64() * self.vus * RATE) as u64;
        self.told = at;
        let load = (self.run.shard.job, self.run.shard.workflow);
        if self.task == Task::Load {
            target.started.insert(load);
        }
        if !elapsed.is_zero() {
            target.joined.insert(load);
        }
        if let Some(pile) = &mut self.pile {
            // Arrivals that were missed are not made up for (R5a).
            pile.taken = pile.taken.max(pile.arrived(elapsed).unwrap_or(0));
            self.counters.begun = pile.taken.saturating_sub(pile.spent);
        }
    }

    /// It was started, and has not ended.
    pub fn runs(&self) -> bool {
        self.started.is_some() && !self.ended
    }

    pub fn move_gate(&mut self, until: Moment) {
        self.until = Some(self.until.map_or(until, |old| old.max(until)));
    }

    pub fn halt(&mut self, how: StopMode) {
        match how {
            StopMode::Graceful => self.stopping = true,
            StopMode::Now => self.kill(),
        }
    }

    pub fn kill(&mut self) {
        self.killed = true;
    }

    fn elapsed(&self, now: Moment) -> Duration {
        let begun = self.started.as_ref().filter(|started| started.at <= now);
        begun.map_or(Duration::ZERO, |begun| begun.elapsed + now.since(begun.at))
    }

    fn window(&self, now: Moment) -> u64 {
        let begun = self.started.as_ref();
        let clock = begun.map_or(Duration::ZERO, |begun| begun.clock + now.since(begun.at));
        (clock.as_millis() / 100) as u64
    }

    pub fn progress(&self, now: Moment) -> Progress {
        let frames = self.sender.as_ref().map_or(0, Sender::cut);
        let (counters, elapsed) = (self.counters, self.elapsed(now));
        Progress { counters, elapsed, frames, answers: elapsed.as_millis() as u64 }
    }

    fn content(&mut self) -> Content {
        let mut window = Window::new(&self.schema.layout);
        let count = std::mem::take(&mut self.fresh);
        let rest = std::mem::take(&mut self.rest);
        self.counters.dropped += rest;
        if count + rest > 0 {
            let stage = self.run.shard.workflow.0 as usize;
            let block = window.block(&self.schema.layout, stage);
            block.iterations = count;
            block.steps[0].requests = count;
            block.dropped[self.cause as usize] = rest;
        }
        let (issued, begun) = (self.counters.issued, self.counters.begun);
        let generator = Generator { issued, begun, ..Generator::default() };
        Content { counts: Delta::of(&window), generator, ..Content::default() }
    }

    /// More may be begun.
    pub fn grant_units(&mut self, end: u64) {
        if let Some(pile) = &mut self.pile {
            pile.end = pile.end.max(end);
        }
    }

    /// What of the load is due, is there, and was granted.
    fn take_units(&mut self, due: u64, target: &mut Target, within: bool) -> u64 {
        let Some(pile) = &mut self.pile else { return due };
        let end = if within { pile.end.min(pile.whole) } else { pile.whole };
        let end = pile.taken.saturating_add(due).min(end).max(pile.taken);
        target.begin(self.run, pile.taken, end, pile.units.is_open());
        let count = end - pile.taken;
        pile.taken = end;
        self.counters.begun = pile.taken.saturating_sub(pile.spent);
        count
    }

    /// A window's counts.
    fn tell(&mut self, now: Moment) {
        self.told = now;
        let (window, content) = (self.window(now), self.content());
        if let Some(sender) = &mut self.sender {
            sender.push(window, content);
        }
    }

    /// Does what is due. `obeys`: it looks at its gate, as it should. True: requests were lost with
    /// it.
    pub fn go_on(
        &mut self,
        now: Moment,
        target: &mut Target,
        obeys: bool,
        within: bool,
    ) -> Option<(EngineEnd, bool)> {
        if self.ended {
            return None;
        }
        // What was sent before this look has been answered meanwhile.
        let answered = std::mem::take(&mut self.in_flight);
        let begun = self.started.as_ref().is_some_and(|started| started.at <= now);
        if self.killed {
            let (how, lost) = (EngineEndKind::Stopped, answered > 0);
            return Some((self.end(how, now), lost));
        }
        self.counters.completed += answered;
        self.counters.iterations += answered;
        self.fresh += answered;
        if !begun {
            let stopped = self.stopping.then_some(EngineEndKind::Stopped)?;
            return Some((self.end(stopped, now), false));
        }
        let elapsed = self.elapsed(now);
        let open = !self.shut && self.until.is_some_and(|until| now < until) || !obeys;
        // Behind a shut gate a load that can be counted is not over: another attempt goes on with
        // the rest.
        let may_end = open || self.pile.is_none();
        let over = self.is_over(elapsed);
        if may_end && (over || self.stopping) {
            let how = if over { EngineEndKind::Completed } else { EngineEndKind::Stopped };
            self.leave_rest(over, target);
            return Some((self.end(how, now), false));
        }
        let arrived =
            self.pile.as_ref().and_then(|pile| Some((pile.arrived(elapsed)?, pile.taken)));
        let count = match arrived {
            Some((arrived, taken)) => arrived.saturating_sub(taken),
            None => {
                let due = (elapsed.as_secs_f64() * self.vus * RATE) as u64;
                let count = due.saturating_sub(self.due);
                self.due = self.due.max(due);
                count
            }
        };
        if self.task != Task::Load {
        } else if open {
            let count = self.take_units(count, target, within);
            // The file first: what was sent is never more than it says.
            self.counters.issued += count;
            *target.issued.entry(self.run.shard.job).or_default() += count;
            if count > 0 {
                target.take(self.run, count);
            }
            self.in_flight = count;
        } else if self.pile.is_none() {
            self.counters.dropped += count;
        }
        if now.since(self.told) >= WINDOW {
            self.tell(now);
        }
        None
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        let time = elapsed >= self.length;
        match &self.pile {
            Some(pile) if pile.units.is_open() => time && pile.taken >= pile.whole,
            Some(pile) => time || pile.taken >= pile.whole,
            None => time,
        }
    }

    /// What users did not get to. Arrivals that nobody waits for any more were not due.
    fn leave_rest(&mut self, out_of_time: bool, target: &mut Target) {
        let Some(pile) = self.pile.as_ref().filter(|pile| !pile.units.is_open()) else { return };
        self.rest = pile.whole.saturating_sub(pile.taken);
        self.cause = if out_of_time { DropCause::TimeOver } else { DropCause::Stopped };
        if out_of_time && self.rest > 0 {
            target.out_of_time.insert((self.run.shard.job, self.run.shard.workflow));
        }
    }

    fn end(&mut self, how: EngineEndKind, now: Moment) -> EngineEnd {
        self.ended = true;
        let (window, content) = (self.window(now), self.content());
        let mut totals = Vec::new();
        let mut frames = 0;
        if let Some(sender) = &mut self.sender {
            sender.finish(window, content);
            totals = postcard::to_allocvec(&sender.tail()).unwrap_or_default();
            frames = sender.cut();
        }
        let (counters, log) = (self.counters, String::new());
        EngineEnd { how, counters, provided: BTreeMap::new(), frames, totals, log }
    }
}
