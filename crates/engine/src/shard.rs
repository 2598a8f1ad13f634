//! One core's share of a workflow: starts virtual users when the schedule says so, and ends them.
//!
//! ```text
//! schedule (pure, schedule) ──▶ driver ──▶ virtual users (local tasks)
//!                  live control ──changed──▲   ╰── end: no new iterations ▶ graceful stop ▶ cancelled, counted
//! ```
//!
//! Closed models keep a number of users busy (`vus`); open models hand arrivals to whoever is free
//! (`arrivals`). Shard `s` of `n` owns users and arrivals `s, s + n, s + 2n ...`, so shards never
//! need to talk.

mod arrivals;
mod rows;
mod schedule_clock;
mod users;

use base::clock;
use fence::Moment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plan::{Executor, Rate};
use stats::DropCause;
use tokio::sync::Notify;
use url::Url;

pub use rows::Rows;
use rows::Supply;
pub use schedule_clock::ScheduleClock;

use crate::program::{Program, WorkflowProgram};
use crate::recorder::Recorder;
use crate::script::CoreSide;
use crate::user::User;
use crate::vars::Base;
use client::Deadlines;
use client::Settings;

/// Receives exchanges as text (`run --debug`).
pub type Trace = Arc<dyn Fn(String) + Send + Sync>;

/// What the virtual users of one shard share.
pub struct ShardContext {
    pub program: Arc<Program>,
    /// Number of the workflow; one past the last is the plan's own frame.
    pub workflow: usize,
    pub shard: usize,
    pub shards: usize,
    pub recorder: Rc<Recorder>,
    pub settings: Rc<Settings>,
    pub deadlines: Rc<Deadlines>,
    /// Values under the variables; a script's is what its setup returned.
    pub base: RefCell<Base>,
    pub base_url: Option<Url>,
    pub seed: u64,
    pub trace: Option<Trace>,
    pub control: Rc<ShardControl>,
    /// The stage in which iterations start now, by its number in the layout.
    pub stage: Cell<usize>,
    /// Virtual users alive.
    pub vus: Cell<u64>,
    pub vus_max: Cell<u64>,
    /// Virtual users that this machine can hold, for loads that size themselves.
    pub vus_limit: u64,
    /// Values of `record` that were no numbers.
    pub unrecordable: Cell<u64>,
    /// Virtual users whose cookies of `vu_setup` were forgotten before their first iteration.
    pub cookies_lost: Cell<u64>,
    /// Virtual users whose own setup failed.
    pub setup_failures: Cell<u64>,
    pub users_begun: Cell<u64>,
    /// A virtual user found no data row left: no new ones are worth starting.
    pub data_exhausted: Cell<bool>,
    /// What the lowest virtual user provides to later workflows, and its number.
    provided: RefCell<Provided>,
    /// What runs instead of steps.
    pub script: Option<Rc<CoreSide>>,
    /// Virtual users of a script that are ready and serve nobody, by number.
    ready: RefCell<BTreeMap<u64, User>>,
    /// Virtual users of an open model that serve an arrival now.
    busy: Cell<u64>,
    /// Virtual users with lower numbers have been made at least once.
    users_made: Cell<u64>,
    /// Of iterations that are counted: done so far, and this shard's share.
    iterations: Cell<(u64, u64)>,
    /// What earlier attempts at this shard have left.
    pub join: Cell<Join>,
    /// Units of the schedule (arrivals, or iterations) that are spent, those of earlier attempts
    /// included.
    taken: Cell<u64>,
    /// Units with lower numbers may be begun; `None`: all of them. Somebody else goes on if this
    /// attempt is lost, behind what it was granted (R5a).
    pub units_end: Cell<Option<u64>>,
    /// Since when a user waits for more to be granted, and for how long some did before.
    held: Cell<(Option<Moment>, u64)>,
    pub want_units: UnitsWanted,
    /// Leased rows by data set; a set without follows the iteration's number.
    supplies: RefCell<BTreeMap<usize, Supply>>,
    row_wait: Cell<Duration>,
    rows_came: Notify,
    pub want_rows: RowsWanted,
}

/// Says that all units which were granted are begun.
pub type UnitsWanted = Rc<dyn Fn()>;

/// Asks for rows: the set, and how many at least.
pub type RowsWanted = Rc<dyn Fn(usize, u64)>;

/// How a shard continues what an earlier attempt began (R5a).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Join {
    /// Where the schedule stands when the load begins.
    pub elapsed: Duration,
    /// Units of this shard's schedule that are not to be issued again: arrivals, or iterations
    /// where those are counted. Arrivals before `elapsed` are spent in any case.
    pub spent: u64,
}

#[derive(Default)]
struct Provided {
    from_vu: Option<u64>,
    values: Vec<Option<Vec<u8>>>,
    secret: Option<String>,
}

/// What the conductor tells a running shard.
#[derive(Default)]
pub struct ShardControl {
    pub clock: ScheduleClock,
    pub vus_override: Cell<Option<u32>>,
    /// New rates, and the schedule time from which each holds, in the order in which they were
    /// given.
    pub rates: RefCell<Vec<(Rate, Duration)>>,
    pub stop: Cell<Stop>,
    pub changed: Notify,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    No,
    /// No new iterations; running ones have the graceful stop.
    Graceful,
    Now,
}

/// What a shard leaves behind.
#[derive(Debug, Clone, Default)]
pub struct ShardEnd {
    pub provided: Vec<Option<Vec<u8>>>,
    pub vus_max: u64,
    pub unrecordable: u64,
    pub cookies_lost: u64,
    pub setup_failures: u64,
    /// Virtual users that got as far as their first iteration.
    pub users_begun: u64,
    pub stopped: bool,
    /// The lease ran out, or its permit was closed.
    pub shut_out: bool,
    /// Units of the schedule that are spent.
    pub taken: u64,
    /// Key of a value that was not handed on because a secret is in it.
    pub secret_provided: Option<String>,
}

/// Whether the load has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Yes,
    NotYet,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Reached,
    /// Paused, resumed, scaled or stopped: look again.
    Changed,
}

impl ShardContext {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        program: Arc<Program>,
        workflow: usize,
        (shard, shards): (usize, usize),
        recorder: Rc<Recorder>,
        settings: Rc<Settings>,
        deadlines: Rc<Deadlines>,
        base: Base,
        control: Rc<ShardControl>,
        vus_limit: u64,
        trace: Option<Trace>,
        script: Option<Rc<CoreSide>>,
        want_rows: RowsWanted,
        want_units: UnitsWanted,
    ) -> Rc<ShardContext> {
        let base_url = program.base_url.clone();
        let seed = fastrand::u64(..);
        let context = ShardContext {
            program,
            workflow,
            shard,
            shards,
            recorder,
            settings,
            deadlines,
            base: RefCell::new(base),
            base_url,
            seed,
            trace,
            control,
            stage: Cell::new(0),
            vus: Cell::new(0),
            vus_max: Cell::new(0),
            vus_limit,
            unrecordable: Cell::new(0),
            cookies_lost: Cell::new(0),
            setup_failures: Cell::new(0),
            users_begun: Cell::new(0),
            data_exhausted: Cell::new(false),
            provided: RefCell::default(),
            script,
            ready: RefCell::default(),
            busy: Cell::new(0),
            users_made: Cell::new(0),
            iterations: Cell::new((0, 0)),
            join: Cell::default(),
            taken: Cell::new(0),
            units_end: Cell::new(None),
            held: Cell::default(),
            want_units,
            supplies: RefCell::default(),
            row_wait: Cell::default(),
            rows_came: Notify::new(),
            want_rows,
        };
        context.stage.set(context.workflow().first_stage);
        Rc::new(context)
    }

    pub fn workflow(&self) -> &WorkflowProgram {
        self.program.workflow(self.workflow)
    }

    /// Number of the workflow's first step in the layout.
    pub fn first_step(&self) -> usize {
        self.program.layout.workflows[self.workflow().index].steps.start
    }

    /// A unit of the schedule was taken.
    fn took(&self, count: u64) {
        let taken = self.taken.get() + count;
        self.taken.set(taken);
        if let Some(issued) = self.settings.send_control.issued() {
            issued.set_taken(taken);
        }
    }

    pub fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// The lease ran out, or its permit was closed: nothing more is sent by this attempt.
    fn is_shut_out(&self) -> bool {
        self.settings.send_control.permit().standing(clock::now()).is_final()
    }

    /// A unit for which there was no data is not begun after all.
    fn gave_back(&self) {
        let taken = self.taken.get().saturating_sub(1);
        self.taken.set(taken);
        if let Some(issued) = self.settings.send_control.issued() {
            issued.set_taken(taken);
        }
    }

    /// Whether another iteration may be begun by what was granted. The first user that may not says
    /// so.
    fn may_take(&self) -> bool {
        let may = self.units_end.get().is_none_or(|end| self.taken.get() < end);
        if !may && self.note_held() {
            (self.want_units)();
        }
        may
    }

    /// Load begins to wait for whoever leads the job, which the result has to tell. True: it did
    /// not wait before.
    fn note_held(&self) -> bool {
        let (since, before) = self.held.get();
        if since.is_none() {
            self.held.set((Some(clock::now()), before));
        }
        since.is_none()
    }

    fn held_no_more(&self) {
        self.held.set((None, self.held_ns()));
    }

    /// Iterations below `end` may be begun. Grants only rise.
    pub fn grant_units(&self, end: u64) {
        if self.units_end.get().is_some_and(|known| known < end) {
            self.units_end.set(Some(end));
            self.held_no_more();
            self.control.changed.notify_waiters();
        }
    }

    fn held_ns(&self) -> u64 {
        let (since, before) = self.held.get();
        before + since.map_or(0, |since| clock::now().nanos_since(since))
    }

    /// For how long users could not begin an iteration because no more of them, or no data rows,
    /// were granted.
    pub fn held(&self) -> Duration {
        Duration::from_nanos(self.held_ns())
    }

    /// A virtual user by number: one that is ready, or a new one.
    fn user(self: &Rc<Self>, index: u64) -> Result<User, String> {
        let ready = self.ready.borrow_mut().remove(&index);
        ready.map_or_else(|| self.new_user(index), Ok)
    }

    fn new_user(self: &Rc<Self>, index: u64) -> Result<User, String> {
        if let Some(side) = &self.script
            && self.users_made.replace(self.users_made.get().max(index + 1)) <= index
        {
            side.instance.initialized(side.core);
        }
        User::new(self, index)
    }

    fn is_ready(&self, index: u64) -> bool {
        self.ready.borrow().contains_key(&index)
    }

    /// Keeps a script's virtual user for when it is wanted again: its runtime goes on where it
    /// stood.
    fn put_back(&self, index: u64, user: User) {
        if let User::Script(_) = user {
            self.ready.borrow_mut().insert(index, user);
        }
    }

    /// Makes a script's virtual users before the load begins, and runs their init code.
    pub async fn make_users(self: &Rc<Self>, count: u64) -> Result<(), String> {
        for local in 0..count {
            let index = local * self.shards as u64 + self.shard as u64;
            let user = self.new_user(index)?;
            if !user.begin().await {
                return Err(user.why_broken());
            }
            self.ready.borrow_mut().insert(index, user);
            tokio::task::yield_now().await;
            if self.control.stop.get() != Stop::No {
                break;
            }
        }
        Ok(())
    }

    /// The load's time has passed. The one who ends it may be waiting for its turn behind thousands
    /// of scripts that compute.
    fn is_over(&self) -> bool {
        self.script.is_some()
            && self.control.clock.elapsed() >= schedule::latest_end(&self.workflow().load)
    }

    /// How much of the load is over, from 0 to 1: of its iterations, or of its time.
    pub fn progress(&self) -> f64 {
        let (done, all) = self.iterations.get();
        if all > 0 {
            return done as f64 / all as f64;
        }
        let end = schedule::latest_end(&self.workflow().load).as_secs_f64();
        (self.control.clock.elapsed().as_secs_f64() / end.max(1e-9)).min(1.0)
    }

    /// Iterations of the schedule that were never started.
    fn dropped(&self, cause: DropCause, count: u64) {
        self.recorder.dropped(self.stage.get(), cause, count);
        if let Some(side) = &self.script
            && count > 0
        {
            side.dropped(self.workflow, count);
        }
    }

    /// Remembers what `provide` asks for: the lowest virtual user's latest values.
    fn note_provided(&self, user: &User) {
        let workflow = self.workflow();
        let User::Plan(vu) = user else { return };
        if workflow.provide.is_empty() {
            return;
        }
        let mut provided = self.provided.borrow_mut();
        if provided.from_vu.is_some_and(|known| known < vu.index) {
            return;
        }
        provided.from_vu = Some(vu.index);
        provided.values = workflow
            .provide
            .iter()
            .map(|one| {
                let slot = workflow.slots.iter().position(|name| *name == one.from)?;
                vu.vars.get(slot)
            })
            .collect();
        // It would travel through the ledger.
        let secrets = &self.program.secrets;
        if !secrets.is_empty() {
            let Provided { values, secret, .. } = &mut *provided;
            for (value, one) in values.iter_mut().zip(&workflow.provide) {
                if value.as_ref().is_some_and(|value| secrets.occurs_in(value)) {
                    *value = None;
                    secret.get_or_insert_with(|| one.key.clone());
                }
            }
        }
    }

    /// Virtual users as people count them. Those of a script that wait for an arrival do not count,
    /// as in k6.
    pub fn vus_shown(&self) -> u64 {
        if self.script.is_some() && self.is_open() { self.busy.get() } else { self.vus.get() }
    }

    /// Arrivals set the pace, not answers.
    pub fn is_open(&self) -> bool {
        matches!(
            &self.workflow().load.executor,
            Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. }
        )
    }

    fn vu_came(&self) {
        self.vus.set(self.vus.get() + 1);
        self.vus_max.set(self.vus_max.get().max(self.vus.get()));
    }

    fn vu_went(&self) {
        self.vus.set(self.vus.get() - 1);
    }

    /// Waits for the moment at which the load begins.
    pub async fn until_start(&self) -> Started {
        if self.control.clock.has_begun() {
            return Started::Yes;
        }
        self.until(Duration::ZERO).await;
        if self.control.clock.has_begun() { Started::Yes } else { Started::NotYet }
    }

    /// Waits until work outside of iterations has to end: at once, or, where a graceful stop
    /// concerns it, when its grace is over.
    pub async fn told_to_stop(&self, graceful: bool) {
        loop {
            let changed = self.control.changed.notified();
            match self.control.stop.get() {
                Stop::Now => return,
                Stop::Graceful if graceful => {
                    let grace = tokio::time::sleep(self.workflow().load.graceful_stop);
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = grace => return,
                    }
                }
                _ => changed.await,
            }
        }
    }

    /// Waits until schedule time `t`, or until somebody changed something.
    async fn until(&self, t: Duration) -> Wake {
        let clock = &self.control.clock;
        let changed = self.control.changed.notified();
        if clock.is_paused() {
            changed.await;
            return Wake::Changed;
        }
        let at = tokio::time::Instant::from_std(clock::instant(clock.at(t)));
        tokio::select! {
            biased;
            () = changed => Wake::Changed,
            () = tokio::time::sleep_until(at) => Wake::Reached,
        }
    }

    /// Keeps `stage` true to the schedule.
    async fn follow_stages(self: Rc<Self>) {
        let workflow = self.workflow();
        loop {
            let t = self.control.clock.elapsed();
            let stage = schedule::stage_at(&workflow.load, t);
            self.stage.set(workflow.first_stage + stage);
            match schedule::next_stage_change(&workflow.load, t) {
                Some(next) => {
                    self.until(next).await;
                }
                None => return,
            }
        }
    }
}

/// Runs the shard's load from its start to the end of its last iteration.
pub async fn run(context: Rc<ShardContext>) -> ShardEnd {
    let workflow = context.workflow();
    let stage = schedule::stage_at(&workflow.load, context.control.clock.elapsed());
    context.stage.set(workflow.first_stage + stage);
    let stages = tokio::task::spawn_local(context.clone().follow_stages());
    match &context.workflow().load.executor {
        Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. } => {
            arrivals::drive(&context).await;
        }
        _ => users::drive(&context).await,
    }
    stages.abort();
    let provided = std::mem::take(&mut context.provided.borrow_mut().values);
    ShardEnd {
        provided,
        vus_max: context.vus_max.get(),
        unrecordable: context.unrecordable.get(),
        cookies_lost: context.cookies_lost.get(),
        setup_failures: context.setup_failures.get(),
        users_begun: context.users_begun.get(),
        stopped: context.control.stop.get() != Stop::No,
        shut_out: context.is_shut_out(),
        taken: context.taken.get(),
        secret_provided: context.provided.borrow_mut().secret.take(),
    }
}

/// Waits for tasks to end, for as long as the plan and the user allow; then they are cancelled.
async fn wind_down(
    context: &ShardContext,
    tasks: &mut tokio::task::JoinSet<()>,
    graceful: Duration,
) {
    let deadline = tokio::time::Instant::from_std(clock::instant(clock::now().after(graceful)));
    while !tasks.is_empty() {
        if context.control.stop.get() == Stop::Now {
            break;
        }
        tokio::select! {
            biased;
            joined = tasks.join_next() => drop(joined),
            () = context.control.changed.notified() => {}
            () = tokio::time::sleep_until(deadline) => break,
        }
    }
    tasks.shutdown().await;
}
