//! A virtual user that runs a script, as the shards see it.

use base::clock;
use fence::Moment;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use client::{ExchangeEnd, Progress};
use script::host::{HostEnvironment, InstanceFacts, Phase, Scenario, VuSetup};
use script::log::{Level, Line};
use script::recorder::ScriptRecorder;
use script::tags::{SystemTags, TagSet};
use script::thrown::{Thrown, ThrownKind};
use script::vu::{Argument, Call, Vu};
use stats::series::builtin;

use super::{INIT_FAILED, Instance, ScriptRun};
use crate::recorder::At;
use crate::shard::{ShardContext, Stop};

/// Requests with longer names are counted under `other`.
const NAME_BYTES_MAX: usize = 256;

/// What all script users of one core share.
pub struct CoreSide {
    pub core: usize,
    pub run: Arc<ScriptRun>,
    pub recorder: Rc<ScriptRecorder>,
    pub instance: Arc<Instance>,
    /// Tells the conductor that a script wants the whole test to end.
    pub tell: Rc<dyn Fn(ScriptEnd)>,
    /// When the next request may leave this core, where requests a second are limited.
    next_request: Cell<Moment>,
    /// From one request to the next.
    request_gap_ns: Option<u64>,
}

/// What a script asks of the whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptEnd {
    Abort(String),
    MarkFailed(String),
}

impl CoreSide {
    pub fn new(
        core: usize,
        cores: usize,
        run: Arc<ScriptRun>,
        recorder: Rc<ScriptRecorder>,
        instance: Arc<Instance>,
        tell: Rc<dyn Fn(ScriptEnd)>,
    ) -> CoreSide {
        let request_gap_ns = run.rps.filter(|rps| *rps > 0);
        let request_gap_ns = request_gap_ns.map(|rps| 1_000_000_000 * cores as u64 / rps);
        CoreSide {
            core,
            run,
            recorder,
            instance,
            tell,
            next_request: Cell::new(Moment::from_nanos(0)),
            request_gap_ns,
        }
    }

    /// An arrival found all users busy, and there may be no more. Said once.
    pub fn no_free_user(&self, workflow: usize) {
        if !self.instance.first_without_user() {
            return;
        }
        let most = self.run.scenarios[workflow].vus_max;
        let text =
            format!("Insufficient VUs, reached {most} active VUs and cannot initialize more");
        let line = Line::new(Level::Warning, text)
            .with("executor", self.run.scenarios[workflow].executor.as_str())
            .with("scenario", self.run.plan.workflows[workflow].name.as_str());
        (self.run.logger)(line);
    }

    /// Iterations of a scenario's schedule that were never started.
    pub fn dropped(&self, workflow: usize, count: u64) {
        let tags = scenario_tags(&self.run, workflow);
        self.recorder.record(builtin::DROPPED_ITERATIONS, count as f64, &tags);
    }

    fn next_request_at(&self) -> Option<Moment> {
        let gap = self.request_gap_ns?;
        let at = self.next_request.get().max(clock::now());
        self.next_request.set(Moment::from_nanos(at.as_nanos() + gap));
        Some(at)
    }
}

/// How a script reaches its shard. Weak, because the shard holds the users.
struct Around {
    context: std::rc::Weak<ShardContext>,
    side: Rc<CoreSide>,
    stage: Rc<Cell<usize>>,
}

impl HostEnvironment for Around {
    fn progress(&self) -> f64 {
        self.context.upgrade().map_or(0.0, |context| context.progress())
    }

    fn scenario_started_unix_ms(&self) -> f64 {
        let Some(context) = self.context.upgrade() else { return 0.0 };
        let ago_ms = context.control.clock.elapsed().as_secs_f64() * 1e3;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0.0, |now| now.as_secs_f64() * 1e3 - ago_ms)
    }

    fn time_left(&self) -> Option<std::time::Duration> {
        let context = self.context.upgrade()?;
        // In setup and teardown there is no workflow.
        self.side.run.scenarios.get(context.workflow)?;
        let load = &context.workflow().load;
        let end = schedule::latest_end(load).checked_add(load.graceful_stop)?;
        end.checked_sub(context.control.clock.elapsed())
    }

    fn instance(&self) -> InstanceFacts {
        self.side.instance.facts()
    }

    fn abort(&self, reason: &str) {
        // The conductor tells everybody; until then nobody begins anything new.
        self.side.instance.stop();
        if let Some(context) = self.context.upgrade() {
            context.control.stop.set(Stop::Now);
            context.control.changed.notify_waiters();
        }
        (self.side.tell)(ScriptEnd::Abort(reason.to_owned()));
    }

    fn mark_failed(&self, reason: &str) {
        (self.side.tell)(ScriptEnd::MarkFailed(reason.to_owned()));
    }

    fn next_request_at(&self) -> Option<Moment> {
        self.side.next_request_at()
    }

    fn begun(&self) {
        if let Some(context) = self.context.upgrade() {
            context.recorder.begun();
        }
    }

    fn ended(&self) {
        if let Some(context) = self.context.upgrade() {
            context.recorder.ended();
        }
    }

    fn exchanged(&self, progress: &Progress, ended: ExchangeEnd, name: &str) {
        if let Some(context) = self.context.upgrade() {
            let name = if name.len() <= NAME_BYTES_MAX { name } else { "other" };
            context.recorder.exchange(self.at(), progress, ended, Some(name));
        }
    }

    fn interrupted(&self, progress: &Progress) {
        if let Some(context) = self.context.upgrade() {
            context.recorder.interrupted(self.at(), progress);
        }
    }
}

impl Around {
    /// All requests of a scenario are one step.
    fn at(&self) -> At {
        At { stage: self.stage.get(), step: 0 }
    }
}

pub struct ScriptUser {
    vu: Vu,
    side: Rc<CoreSide>,
    function: Rc<str>,
    argument: RefCell<Option<Argument>>,
    stage: Rc<Cell<usize>>,
    ready: Cell<bool>,
    /// Why its init code failed.
    broken: OnceCell<Thrown>,
    iterations: Cell<u64>,
    last_begun: Cell<Option<Moment>>,
}

impl ScriptUser {
    /// `index`: number within the scenario, from 0. The init code has yet to run.
    pub fn new(context: &Rc<ShardContext>, index: u64) -> Result<Rc<ScriptUser>, String> {
        let side = context.script.clone().expect("made for scripts only");
        let first = side.run.first_vu(context.workflow);
        let in_instance = first + index;
        let in_test = side.run.stripes.as_ref().map_or(in_instance, |part| part.nth(in_instance));
        ScriptUser::with_id(context, side, index, (in_test + 1, in_instance + 1))
    }

    /// The one that runs setup and teardown.
    pub fn hook(context: &Rc<ShardContext>) -> Result<Rc<ScriptUser>, String> {
        let side = context.script.clone().expect("made for scripts only");
        ScriptUser::with_id(context, side, 0, (0, 0))
    }

    fn with_id(
        context: &Rc<ShardContext>,
        side: Rc<CoreSide>,
        index: u64,
        (id_in_test, id_in_instance): (u64, u64),
    ) -> Result<Rc<ScriptUser>, String> {
        let addresses = &context.settings.http.local_addresses;
        let local_address = match addresses.len() {
            0 => None,
            count => Some(addresses[index as usize % count]),
        };
        let stage = Rc::new(Cell::new(context.stage.get()));
        let scenario = scenario(&side.run, context.workflow);
        let around =
            Around { context: Rc::downgrade(context), side: side.clone(), stage: stage.clone() };
        let vu = Vu::new(VuSetup {
            script: side.run.script.clone(),
            recorder: side.recorder.clone(),
            logger: side.run.logger.clone(),
            scenario: scenario.clone(),
            environment: Rc::new(around),
            settings: context.settings.clone(),
            deadlines: context.deadlines.clone(),
            local_address,
            id_in_test,
            id_in_instance,
        })
        .map_err(|error| format!("no memory for the stack of a virtual user: {error}"))?;
        Ok(Rc::new(ScriptUser {
            vu,
            side,
            function: scenario.exec.as_str().into(),
            argument: RefCell::new(None),
            stage,
            ready: Cell::new(false),
            broken: OnceCell::new(),
            iterations: Cell::new(0),
            last_begun: Cell::new(None),
        }))
    }

    /// Runs the init code, if it has not run. False: the script cannot go on.
    pub async fn begin(&self) -> bool {
        if !self.ready.get() {
            self.ready.set(true);
            if let Err(thrown) = self.vu.init().await {
                self.report(&thrown);
                let _ = self.broken.set(thrown);
            }
        }
        self.broken.get().is_none()
    }

    pub fn why_broken(&self) -> String {
        let why = self.broken.get().map(|thrown| format!(": {}", thrown.in_one_line()));
        format!("{INIT_FAILED}{}", why.unwrap_or_default())
    }

    pub async fn iterate(
        &self,
        context: &ShardContext,
        number: u64,
        intended: Option<Moment>,
    ) -> crate::vu::Iterated {
        if self.side.instance.is_stopped() {
            // Somebody has aborted the test, and the word has not come to our shard yet.
            std::future::pending::<()>().await;
        }
        let rules = self.side.run.script.rules();
        self.pace(rules.min_iteration_duration).await;
        let stage = context.stage.get();
        self.stage.set(stage);
        let begun = clock::now();
        self.last_begun.set(Some(begun));
        if let Some(intended) = intended {
            context.recorder.started(stage, begun.nanos_since(intended));
        }
        let host = &self.vu.host;
        let part = self.side.run.stripes.as_ref();
        let number_in_test = part.map_or(number, |part| part.nth(number));
        host.begin_iteration(self.iterations.get(), number, number_in_test);
        self.side.instance.active(self.side.core, 1);
        let mut guard = Running { user: self, context, stage, done: false };
        let call = Call {
            function: self.function.clone(),
            phase: Phase::Iteration,
            argument: self.setup_data(context),
        };
        let result = self.vu.call(call).await;
        let cut_off = match &result {
            Err(thrown) => {
                if thrown.kind == ThrownKind::Exception {
                    self.side.run.script.count_exception(thrown);
                }
                self.report(thrown);
                // The one that aborts the test has come to its end.
                thrown.kind == ThrownKind::Cancelled
            }
            Ok(_) => false,
        };
        let ended = clock::now();
        guard.done = !cut_off;
        drop(guard);
        if !cut_off {
            self.side.instance.iteration(self.side.core);
            context.recorder.iteration(stage, ended.nanos_since(begun));
            let duration_ms = ended.nanos_since(begun) as f64 / 1e6;
            let values = [(builtin::ITERATION_DURATION, duration_ms), (builtin::ITERATIONS, 1.0)];
            self.side.recorder.record_all(&values, &host.scope());
        }
        self.iterations.set(self.iterations.get() + 1);
        crate::vu::Iterated::Done
    }

    /// What setup returned; known when the load begins.
    fn setup_data(&self, context: &ShardContext) -> Argument {
        let mut known = self.argument.borrow_mut();
        let data = known.get_or_insert_with(|| {
            let base = context.base.borrow();
            let json = base.first().and_then(|value| value.as_deref());
            Argument::SetupData(json.map(|json| Arc::from(String::from_utf8_lossy(json))))
        });
        data.clone()
    }

    /// Waits until the last iteration's least time has passed.
    async fn pace(&self, least: std::time::Duration) {
        if let Some(last) = self.last_begun.get()
            && !least.is_zero()
        {
            let until = tokio::time::Instant::from_std(clock::instant(last.after(least)));
            tokio::time::sleep_until(until).await;
        }
    }

    /// Calls `setup`, `teardown` or `handleSummary`.
    pub async fn call(
        &self,
        function: &str,
        phase: Phase,
        context: &ShardContext,
        stage: usize,
    ) -> Result<Option<script::vu::Returned>, Thrown> {
        self.stage.set(stage);
        self.vu.host.begin_aside(function);
        let argument = self.setup_data(context);
        let result = self.vu.call(Call { function: function.into(), phase, argument }).await;
        script::modules::core::enter(&self.vu.host, &format!("::{function}"));
        self.vu.host.record_traffic();
        result
    }

    pub async fn init(&self) -> Result<(), Thrown> {
        self.vu.init().await
    }

    pub fn record_traffic(&self) {
        self.vu.host.record_traffic();
    }

    pub fn cancel(&self) {
        self.vu.cancel();
    }

    /// An exception goes to the log; a script that throws the same in each iteration does so each
    /// time, as k6 does.
    fn report(&self, thrown: &Thrown) {
        if thrown.kind != ThrownKind::Exception {
            return;
        }
        let scenario = &self.vu.host.setup.scenario;
        let line = Line::new(Level::Error, thrown.full())
            .with("executor", scenario.executor.as_str())
            .with("scenario", scenario.name.as_str())
            .from("stacktrace");
        (self.side.run.logger)(line);
    }
}

/// The tags of what belongs to a scenario and to no virtual user.
fn scenario_tags(run: &ScriptRun, workflow: usize) -> TagSet {
    let mut tags = run.script.rules().tags.with(&scenario(run, workflow).tags);
    if run.script.rules().system_tags.has(SystemTags::SCENARIO) {
        tags.set("scenario", &run.plan.workflows[workflow].name);
    }
    tags
}

/// The scenario of a workflow; one past the last is nobody's: setup, teardown, summary.
pub(super) fn scenario(run: &ScriptRun, workflow: usize) -> Rc<Scenario> {
    let Some(known) = run.scenarios.get(workflow) else {
        return Rc::new(Scenario { exec: "setup".to_owned(), ..Scenario::default() });
    };
    Rc::new(Scenario {
        name: run.plan.workflows[workflow].name.clone(),
        executor: known.executor.clone(),
        exec: known.exec.clone(),
        tags: known.tags.iter().map(|(key, value)| (key, value)).collect(),
        env: known.env.clone(),
    })
}

/// Counts an iteration that is dropped before its end, and the user as idle afterwards.
struct Running<'a> {
    user: &'a ScriptUser,
    context: &'a ShardContext,
    stage: usize,
    done: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let side = &self.user.side;
        side.instance.active(side.core, -1);
        self.user.vu.host.record_traffic();
        if !self.done {
            self.context.recorder.iteration_interrupted(self.stage);
            side.instance.interrupted(side.core);
        }
    }
}
