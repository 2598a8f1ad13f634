//! Leads a run: starts cores, carries out what the job's state machine decides, sums up, watches
//! the thresholds.
//!
//! ```text
//! Controller ──┐                         ┌──▶ cores (commands)
//!              ├──▶ inbox ──▶ Conductor ─┤
//! cores ───────┘   (reports)             └──▶ publish(Snapshot)   once a second, never waited for
//! ```
//!
//! All decisions are `schedule::job`'s; this is the shell around it. It has a thread of its own and
//! touches no request.

mod finish;
mod live;
mod scripted;
mod snapshot;
mod workflows;

use base::clock;
use fence::Moment;
use permit::SendControl;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use plan::Plan;
use schedule::allocation::{arrange, candidates};
use schedule::job::{Effect, Event, Job, Shape, WorkflowEnd};
use scripted::ScriptState;
use stats::aggregate::Aggregate;
use stats::series::SeriesWindow;
use stats::threshold::Evaluator;
use stats::{
    Layout, ProgressSink, RunResult, RunState, SampleSink, Snapshot, StopReason, TimelineEntry,
    Window,
};

use crate::aggregate;
use crate::attempt::{Provided, Values};
use crate::core::{Command, CoreHandle, CoreSetup, Hook, Report};
use crate::machine;
use crate::options::{Controller, Request, RunOptions};
use crate::prepare::Prepared;
use crate::program::{CompileError, Program};
use crate::script::{Instance, ScriptRun};
use crate::secrets;
use crate::shard::{ShardEnd, Stop};
use crate::vars::Base;

/// How often counts are collected.
const TICK: Duration = Duration::from_secs(1);
/// A core that has not answered by then is busy; its counts come with the next tick.
const TICK_GRACE: Duration = Duration::from_millis(900);
/// From the order to the common start of all shards of a workflow.
const START_AHEAD: Duration = Duration::from_millis(2);

/// Everything that can happen to a conductor.
pub enum Input {
    Report(Report),
    Request(Request),
}

pub struct Conductor {
    options: RunOptions,
    /// How many cores there are to share out.
    pool: usize,
    sender: Sender<Input>,
    plan: Plan,
    program: Arc<Program>,
    prepared: Arc<Prepared>,
    job: Job,
    cores: Vec<CoreHandle>,
    inbox: Receiver<Input>,
    aggregate: Aggregate,
    evaluator: Evaluator,
    /// Windows to be handed out again.
    spare: Vec<Window>,
    #[expect(clippy::vec_box, reason = "they travel in boxes")]
    spare_series: Vec<Box<SeriesWindow>>,
    /// Of a script's run.
    script: Option<ScriptState>,
    started: Moment,
    started_unix_ms: u64,
    state: RunState,
    paused: Option<Moment>,
    paused_ns: u64,
    workflows: Vec<Running>,
    /// Values by name from the plan's own setup.
    shared: Values,
    provided: Provided,
    timeline: Vec<TimelineEntry>,
    notes: Vec<String>,
    /// The tick that is being collected: when it was asked for, and how many cores have yet to
    /// answer.
    tick: Option<(Moment, usize)>,
    last_tick: Moment,
    panicked: Vec<usize>,
    descriptors_limit: u64,
    descriptors_max: u64,
    unrecordable: u64,
    cookies_lost: u64,
    /// Who wants to see the run in full while it goes on.
    progress: Option<Arc<dyn ProgressSink>>,
}

/// What the conductor knows of a workflow beyond the job's state.
#[derive(Default, Clone)]
struct Running {
    cores: Vec<usize>,
    base: Option<Base>,
    start: Option<Moment>,
    /// Paused time before it started, to be left out of its own clock.
    paused_before: u64,
    shards_left: usize,
    ends: Vec<(usize, ShardEnd)>,
    vus_max: u64,
    vus_override: Option<u32>,
    rate_override: Option<plan::Rate>,
    rate_changes: usize,
}

impl Conductor {
    /// Compiles the plan and resolves its addresses; no load yet.
    pub fn new(plan: Plan, options: RunOptions) -> Result<(Conductor, Controller), CompileError> {
        let secrets = options.secrets.clone().unwrap_or_else(secrets::from_environment);
        let program = Program::compile(&plan, &secrets)?;
        Conductor::with_program(plan, program, options)
    }

    /// The same for a script.
    pub fn for_script(
        run: Arc<ScriptRun>,
        options: RunOptions,
    ) -> Result<(Conductor, Controller), CompileError> {
        let plan = run.plan.clone();
        let program = Program::for_script(run)?;
        Conductor::with_program(plan, program, options)
    }

    fn with_program(
        plan: Plan,
        program: Program,
        options: RunOptions,
    ) -> Result<(Conductor, Controller), CompileError> {
        let program = Arc::new(program);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CompileError(format!("cannot start: {error}")))?;
        let prepared = Arc::new(runtime.block_on(Prepared::new(&program)));
        // A plan's workflow that cannot start is told in its result; a script's has no such place.
        if program.script.is_some()
            && let Some(error) = prepared.workflows.iter().find_map(|ready| ready.error.clone())
        {
            return Err(CompileError(error));
        }
        let pool = options.cores.unwrap_or_else(machine::cores).max(1);
        let job = Job::new(shape(&plan, pool, program.script.as_deref()))
            .map_err(|error| CompileError(error.to_string()))?;
        let descriptors_limit = machine::raise_descriptor_limit();
        let (sender, inbox) = channel();
        let now = clock::now();
        let conductor = Conductor {
            options,
            pool,
            sender: sender.clone(),
            aggregate: Aggregate::new(
                program.layout.clone(),
                program.script.as_ref().map(|run| &*run.layout),
            ),
            evaluator: Evaluator::new(&plan.thresholds, program.layout.clone()),
            workflows: vec![Running::default(); plan.workflows.len()],
            script: program.script.as_ref().map(|run| ScriptState::new(run, pool)),
            plan,
            program,
            prepared,
            job,
            cores: Vec::new(),
            inbox,
            spare: Vec::new(),
            spare_series: Vec::new(),
            started: now,
            started_unix_ms: clock::unix_now().as_millis() as u64,
            state: RunState::Preparing,
            paused: None,
            paused_ns: 0,
            shared: Values::new(),
            provided: Provided::new(),
            timeline: Vec::new(),
            notes: Vec::new(),
            tick: None,
            last_tick: now,
            panicked: Vec::new(),
            descriptors_limit,
            descriptors_max: 0,
            unrecordable: 0,
            cookies_lost: 0,
            progress: None,
        };
        Ok((conductor, Controller::new(sender)))
    }

    /// The names behind the numbers of samples and results.
    pub fn layout(&self) -> Arc<Layout> {
        self.program.layout.clone()
    }

    /// Gets every request, iteration and check from now on.
    pub fn set_sample_sink(&mut self, sink: SampleSink) {
        self.options.sample_sink = Some(sink);
    }

    /// Gets the whole result as it would be now, about once a second, whenever it wants it.
    pub fn set_progress_sink(&mut self, sink: Arc<dyn ProgressSink>) {
        self.progress = Some(sink);
    }

    /// Runs to the end. `publish` gets a snapshot about once a second and must not wait.
    pub fn run(mut self, publish: &mut dyn FnMut(Snapshot)) -> Result<RunResult, CompileError> {
        self.start_cores()?;
        self.make_users()?;
        self.wait_for_resume(publish);
        self.started = clock::now();
        if let Some(script) = &self.script {
            script.instance.begin(self.started);
        }
        self.last_tick = self.started;
        if !self.job.is_done() {
            self.state = RunState::Running;
            self.note_event("run started");
            self.step(Event::Started);
        }
        publish(self.snapshot());
        self.show_progress();
        let deadline = self.plan.timeout.map(|timeout| self.started.after(timeout));
        let mut timed_out = false;
        while !self.job.is_done() {
            let now = clock::now();
            if deadline.is_some_and(|deadline| now >= deadline) && !timed_out {
                timed_out = true;
                self.note_event("job timeout reached");
                self.step(Event::DeadlineReached);
                continue;
            }
            let mut next = self.next_tick();
            if let Some(deadline) = deadline.filter(|_| !timed_out) {
                next = next.min(deadline);
            }
            match self.inbox.recv_timeout(Duration::from_nanos(next.nanos_since(now))) {
                Ok(Input::Report(report)) => self.take_report(report),
                Ok(Input::Request(request)) => self.take_request(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.turn_tick() {
                publish(self.snapshot());
                self.show_progress();
            }
        }
        Ok(self.finish(publish))
    }

    fn start_cores(&mut self) -> Result<(), CompileError> {
        let setup = Arc::new(CoreSetup {
            program: self.program.clone(),
            prepared: self.prepared.clone(),
            sample_sink: self.options.sample_sink.clone(),
            trace: self.options.trace.clone(),
            epoch_unix_ns: epoch_unix_ns(),
            // Leaves room for files, the control socket and connections that linger.
            vus_limit: (self.descriptors_limit.saturating_sub(64) * 9 / 10)
                .min(u64::from(schedule::SELF_SIZED_VUS_MAX)),
            instance: match &self.script {
                Some(script) => script.instance.clone(),
                None => Arc::new(Instance::new(0)),
            },
            cores: self.pool,
            send_control: SendControl::free(),
        });
        for core in 0..self.pool {
            let reports = self.sender.clone();
            // Cores speak of reports only; what else reaches the conductor is not theirs.
            let report = Box::new(move |report| drop(reports.send(Input::Report(report))));
            let handle = CoreHandle::start(core, setup.clone(), report).map_err(|error| {
                let few = error.raw_os_error() == Some(libc::EMFILE);
                let help =
                    if few { "; raise `ulimit -n`, or use fewer cores (`--cores 1`)" } else { "" };
                CompileError(format!("cannot start a thread for core {core}: {error}{help}"))
            })?;
            self.cores.push(handle);
        }
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now().nanos_since(self.started))
    }

    fn note_event(&mut self, event: impl Into<String>) {
        self.timeline.push(TimelineEntry { at: self.elapsed(), event: event.into() });
    }

    /// Tells the job what happened, and does what it says.
    fn step(&mut self, event: Event) {
        let now = self.elapsed();
        let effects = match self.job.step(event, now) {
            Ok(effects) => effects,
            Err(illegal) => {
                // Our own mistake, and harmless: the job is as it was.
                self.notes.push(format!("internal: {illegal}"));
                return;
            }
        };
        for effect in effects {
            match effect {
                Effect::RunSetup => self.run_frame(Hook::Setup),
                Effect::RunTeardown => self.run_frame(Hook::Teardown),
                Effect::StartWorkflow { workflow, cores } => self.start_workflow(workflow, cores),
                Effect::SkipWorkflow { workflow, because_of } => {
                    let name = self.job.name(workflow).to_owned();
                    self.note_event(format!("{name} skipped: {because_of} failed"));
                }
                Effect::StopAll => {
                    self.state = RunState::Stopping;
                    self.broadcast(|| Command::Stop { how: Stop::Graceful });
                }
                Effect::Finish { .. } => {}
            }
        }
    }

    fn broadcast(&self, command: impl Fn() -> Command) {
        for core in &self.cores {
            core.send(command());
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::HookEnded { workflow, what, result } => {
                self.aside_ended(workflow, what, result);
            }
            Report::ShardEnded { workflow, shard, end } => self.shard_ended(workflow, shard, end),
            Report::Swapped(swapped) => {
                let (clear, series) = aggregate::take(&mut self.aggregate, *swapped);
                self.spare.push(clear);
                self.spare_series.extend(series);
                if let Some((_, left)) = &mut self.tick {
                    *left = left.saturating_sub(1);
                }
            }
            Report::UsersMade(result) => self.users_made(result),
            Report::Wish(wish) => self.grant(wish),
            // Rows go by number here, and the permit is always open.
            Report::RowsWanted { .. } | Report::UnitsWanted | Report::ShutOut => {}
            Report::Panicked { core } => self.core_panicked(core),
        }
    }

    /// A core's thread is gone: what it ran has failed, and the rest cannot be trusted.
    fn core_panicked(&mut self, core: usize) {
        self.panicked.push(core);
        self.tick = None;
        for workflow in 0..self.workflows.len() {
            let running = &mut self.workflows[workflow];
            if running.shards_left > 0 && running.cores.contains(&core) {
                running.shards_left = 0;
                self.end_workflow(workflow, WorkflowEnd::Error("the generator crashed".to_owned()));
            }
        }
        if !self.job.is_done() {
            self.step(Event::StopRequested { reason: StopReason::Interrupted });
        }
    }

    fn next_tick(&self) -> Moment {
        match self.tick {
            Some((asked, _)) => asked.after(TICK_GRACE),
            None => self.last_tick.after(TICK),
        }
    }

    /// Asks for counts, or closes the tick that was asked for. True: there is something new to
    /// show.
    fn turn_tick(&mut self) -> bool {
        let now = clock::now();
        match self.tick {
            None if now >= self.last_tick.after(TICK) => {
                self.ask_for_counts(now);
                false
            }
            Some((asked, left)) if left == 0 || now >= asked.after(TICK_GRACE) => {
                self.close_tick(asked);
                true
            }
            _ => false,
        }
    }

    fn ask_for_counts(&mut self, now: Moment) {
        let alive: Vec<usize> =
            (0..self.cores.len()).filter(|core| !self.panicked.contains(core)).collect();
        for &core in &alive {
            let empty = self.spare.pop().unwrap_or_else(|| Window::new(&self.program.layout));
            let empty_series = self.spare_series.pop();
            self.cores[core].send(Command::Swap { empty, empty_series, last: false });
        }
        self.tick = Some((now, alive.len()));
    }

    fn close_tick(&mut self, asked: Moment) {
        let over = Duration::from_nanos(asked.nanos_since(self.last_tick));
        let elapsed = Duration::from_nanos(asked.nanos_since(self.started));
        self.tick = None;
        self.last_tick = asked;
        self.aggregate.close_tick(elapsed, over);
        let vus = self.aggregate.vus_total();
        self.evaluator.observe(&self.aggregate.last, vus, elapsed, over);
        if self.aggregate.ticks % 5 == 1 {
            self.descriptors_max = self.descriptors_max.max(machine::open_descriptors());
        }
        self.watch_series(elapsed);
        if self.state == RunState::Running
            && let Some(broken) = self.evaluator.broken_abort(elapsed)
        {
            let text = &self.plan.thresholds[broken];
            let event = format!("threshold broken: {} {}", text.metric, text.text);
            self.note_event(event);
            self.step(Event::StopRequested { reason: StopReason::Threshold(broken) });
        }
    }
}

/// The job as its state machine wants it.
fn shape(plan: &Plan, pool: usize, script: Option<&ScriptRun>) -> Shape {
    let layers = plan::layers(plan);
    let mut candidates = candidates(plan);
    // A script's scenarios have no steps, and generate load all the same.
    candidates.iter_mut().for_each(|candidate| candidate.is_test |= script.is_some());
    let number = |name: &String| plan.workflows.iter().position(|known| known.name == *name);
    Shape {
        names: plan.workflows.iter().map(|workflow| workflow.name.clone()).collect(),
        depends_on: plan
            .workflows
            .iter()
            .map(|workflow| workflow.depends_on.iter().filter_map(number).collect())
            .collect(),
        layers: arrange(&layers, &candidates, pool),
        setup: script.map_or(!plan.setup.is_empty(), |run| run.has_setup),
        teardown: script.map_or(!plan.teardown.is_empty(), |run| run.has_teardown),
    }
}

/// When this machine's own clock began, in the world's.
pub(crate) fn epoch_unix_ns() -> u64 {
    (clock::unix_now().as_nanos() as u64).saturating_sub(clock::now().as_nanos())
}
