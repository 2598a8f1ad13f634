//! One core: a thread with its own runtime, timers, counters and virtual users.
//!
//! It talks to the conductor only: commands come in, reports go out, nothing is shared on the way
//! of a request.

mod orders;

use base::clock;
use fence::Moment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::script::recorder::ScriptRecorder;
use stats::series::SeriesWindow;
use stats::{Trend, Window};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use orders::{Command, CoreSetup, Entry, Hook, Report, Swapped};

use crate::machine;
use crate::recorder::Recorder;
use crate::script::{self, CoreSide, HookError};
use crate::shard::{self, Join, Rows, ShardContext, ShardControl, Stop};
use crate::vars::Base;
use crate::vu::Vu;
use client::Deadlines;
use client::{OriginTable, Settings};

/// How late a deadline may be noticed.
const DEADLINE_GRAIN: Duration = Duration::from_millis(5);
/// How often the event loop is asked whether it is on time.
const LAG_PERIOD: Duration = Duration::from_millis(20);

/// Where a core's reports go; they are never waited for.
pub type Reporter = Box<dyn Fn(Report) + Send>;

pub struct CoreHandle {
    pub commands: UnboundedSender<Command>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl CoreHandle {
    /// Its thread has come to its end.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    pub fn start(
        core: usize,
        setup: Arc<CoreSetup>,
        report: Reporter,
    ) -> std::io::Result<CoreHandle> {
        let (commands, inbox) = unbounded_channel();
        let (made, is_made) = std::sync::mpsc::sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("volley-core-{core}")).spawn(move || {
                let report: Rc<dyn Fn(Report)> = Rc::new(report);
                let alarm = PanicAlarm { core, report: report.clone(), armed: true };
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build_local(tokio::runtime::LocalOptions::default());
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        alarm.disarm();
                        return drop(made.send(Err(error)));
                    }
                };
                let _ = made.send(Ok(()));
                runtime.block_on(Core::new(core, setup, report).serve(inbox));
                // What is left of virtual users ends here, while a crash would still be told.
                drop(runtime);
                alarm.disarm();
            })?;
        // A thread that ended before it could say so has said why by a report.
        is_made.recv().unwrap_or(Ok(()))?;
        Ok(CoreHandle { commands, thread: Some(thread) })
    }

    pub fn send(&self, command: Command) {
        // A core that is gone has said so with a report.
        let _ = self.commands.send(command);
    }

    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct PanicAlarm {
    core: usize,
    report: Rc<dyn Fn(Report)>,
    armed: bool,
}

impl PanicAlarm {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for PanicAlarm {
    fn drop(&mut self) {
        if self.armed {
            (self.report)(Report::Panicked { core: self.core });
        }
    }
}

struct Core {
    core: usize,
    setup: Arc<CoreSetup>,
    report: Rc<dyn Fn(Report)>,
    recorder: Rc<Recorder>,
    deadlines: Rc<Deadlines>,
    /// Per workflow, made when first needed.
    settings: RefCell<BTreeMap<usize, Rc<Settings>>>,
    running: RefCell<BTreeMap<usize, Rc<ShardContext>>>,
    paused: Cell<Option<Moment>>,
    stop: Cell<Stop>,
    /// Nothing can be sent from here any more.
    shut_out: Cell<bool>,
    loop_lag: RefCell<Trend>,
    script: Option<Rc<CoreSide>>,
    /// Shards whose virtual users are made and whose load has yet to begin.
    made: RefCell<BTreeMap<usize, Rc<ShardContext>>>,
}

impl Core {
    fn new(core: usize, setup: Arc<CoreSetup>, report: Rc<dyn Fn(Report)>) -> Rc<Core> {
        let layout = setup.program.layout.clone();
        let (sink, send_control) = (setup.sample_sink.clone(), setup.send_control.clone());
        let recorder = Recorder::new(layout, sink, setup.epoch_unix_ns, send_control);
        let script = setup.program.script.clone().map(|run| {
            let recorder =
                ScriptRecorder::new(run.layout.clone(), run.sink.clone(), setup.epoch_unix_ns)
                    .noting(run.script.seen.clone());
            let wishes = report.clone();
            let tell = Rc::new(move |wish| wishes(Report::Wish(wish)));
            let instance = setup.instance.clone();
            Rc::new(CoreSide::new(core, setup.cores, run, Rc::new(recorder), instance, tell))
        });
        Rc::new(Core {
            core,
            report,
            recorder: Rc::new(recorder),
            deadlines: Rc::default(),
            settings: RefCell::default(),
            running: RefCell::default(),
            paused: Cell::new(None),
            stop: Cell::new(Stop::No),
            shut_out: Cell::new(false),
            loop_lag: RefCell::default(),
            script,
            made: RefCell::default(),
            setup,
        })
    }

    async fn serve(self: Rc<Self>, mut inbox: UnboundedReceiver<Command>) {
        tokio::task::spawn_local(self.deadlines.clone().sweep_every(DEADLINE_GRAIN));
        tokio::task::spawn_local(self.clone().watch_lag());
        if self.setup.send_control.permit().is_leased() {
            tokio::task::spawn_local(self.clone().watch_gate());
        }
        while let Some(command) = inbox.recv().await {
            match command {
                Command::RunAside { workflow, what, base, entry } => {
                    tokio::task::spawn_local(self.clone().run_aside(workflow, what, base, *entry));
                }
                Command::MakeUsers { workflow, shard, shards, count, entry } => {
                    let context = self.context(workflow, (shard, shards), Base::default());
                    entry.apply(&context);
                    self.made.borrow_mut().insert(workflow, context.clone());
                    let report = self.report.clone();
                    tokio::task::spawn_local(async move {
                        report(Report::UsersMade(context.make_users(count).await));
                    });
                }
                Command::StartShard { workflow, shard, shards, start, base, elapsed } => {
                    self.start_shard(workflow, (shard, shards), (start, elapsed), base);
                }
                Command::GrantRows { workflow, set, rows } => {
                    let (running, made) = (self.running.borrow(), self.made.borrow());
                    if let Some(context) = running.get(&workflow).or(made.get(&workflow)) {
                        context.grant_rows(set, rows);
                    }
                }
                Command::GrantUnits { workflow, end } => {
                    let (running, made) = (self.running.borrow(), self.made.borrow());
                    if let Some(context) = running.get(&workflow).or(made.get(&workflow)) {
                        context.grant_units(end);
                    }
                }
                Command::Pause { at } => {
                    self.paused.set(Some(at));
                    self.each_control(|control| control.clock.pause(at));
                }
                Command::Resume { at } => {
                    self.paused.set(None);
                    self.each_control(|control| control.clock.resume(at));
                }
                Command::SetVus { workflow, vus } => {
                    self.control_of(workflow, |control| control.vus_override.set(Some(vus)));
                }
                Command::SetRate { workflow, rate, from } => {
                    self.control_of(workflow, |control| {
                        control.rates.borrow_mut().push((rate, from));
                    });
                }
                Command::Stop { how } => {
                    self.stop.set(how);
                    self.each_control(|control| control.stop.set(how));
                }
                Command::Swap { empty, empty_series, last } => {
                    self.swap(empty, empty_series, last);
                }
                Command::Quit => return,
            }
        }
    }

    fn each_control(&self, change: impl Fn(&ShardControl)) {
        let (running, made) = (self.running.borrow(), self.made.borrow());
        for context in running.values().chain(made.values()) {
            change(&context.control);
            context.control.changed.notify_waiters();
        }
    }

    fn control_of(&self, workflow: usize, change: impl Fn(&ShardControl)) {
        let (running, made) = (self.running.borrow(), self.made.borrow());
        if let Some(context) = running.get(&workflow).or(made.get(&workflow)) {
            change(&context.control);
            context.control.changed.notify_waiters();
        }
    }

    fn settings(&self, workflow: usize) -> Rc<Settings> {
        if let Some(settings) = self.settings.borrow().get(&workflow) {
            return settings.clone();
        }
        let program = &self.setup.program;
        let http = program.workflow(workflow).http.clone();
        let ready = &self.setup.prepared.workflows[workflow];
        let origins = OriginTable::new(&http, program.unix.clone()).through(ready.proxies.clone());
        for (url, addresses) in program.origins.iter().zip(&ready.addresses) {
            // Schemes were checked when the plan was read.
            if let Ok(origin) = origins.intern(url) {
                origin.set_addresses(addresses.clone());
            }
        }
        let origins = Rc::new(origins);
        if let Some(period) = http.dns_refresh {
            tokio::task::spawn_local(refresh_addresses(origins.clone(), period));
        }
        let tls = ready.tls.clone();
        let send_control = self.setup.send_control.clone();
        let settings = Rc::new(Settings { http, tls, origins, send_control });
        self.settings.borrow_mut().insert(workflow, settings.clone());
        settings
    }

    fn context(&self, workflow: usize, place: (usize, usize), base: Base) -> Rc<ShardContext> {
        let control = Rc::new(ShardControl::default());
        control.stop.set(self.stop.get());
        let report = self.report.clone();
        let want_rows = move |set, at_least| report(Report::RowsWanted { set, at_least });
        let report = self.report.clone();
        let want_units = move || report(Report::UnitsWanted);
        ShardContext::new(
            self.setup.program.clone(),
            workflow,
            place,
            self.recorder.clone(),
            self.settings(workflow),
            self.deadlines.clone(),
            base,
            control,
            (self.setup.vus_limit / place.1 as u64).max(1),
            self.setup.trace.clone(),
            self.script.clone(),
            Rc::new(want_rows),
            Rc::new(want_units),
        )
    }

    fn start_shard(
        self: &Rc<Self>,
        workflow: usize,
        place: (usize, usize),
        (start, elapsed): (Moment, Option<Duration>),
        base: Base,
    ) {
        let made = self.made.borrow_mut().remove(&workflow);
        let context = made.unwrap_or_else(|| self.context(workflow, place, base.clone()));
        *context.base.borrow_mut() = base;
        if let Some(elapsed) = elapsed {
            context.join.set(Join { elapsed, ..context.join.get() });
        }
        context.control.clock.begin(start, context.join.get().elapsed);
        if let Some(at) = self.paused.get() {
            context.control.clock.pause(at.max(start));
        }
        self.running.borrow_mut().insert(workflow, context.clone());
        let core = self.clone();
        tokio::task::spawn_local(async move {
            // Nothing happens before the common start, which also holds `start_after`.
            while context.control.stop.get() == Stop::No
                && context.until_start().await == shard::Started::NotYet
            {}
            let end = shard::run(context).await;
            core.running.borrow_mut().remove(&workflow);
            (core.report)(Report::ShardEnded { workflow, shard: place.0, end });
        });
    }

    async fn run_aside(self: Rc<Self>, workflow: usize, what: Hook, base: Base, entry: Entry) {
        let context = self.context(workflow, (0, 1), base);
        entry.apply(&context);
        if what == Hook::Teardown && !self.shut_out.get() {
            // It runs even after a stop; only one that comes while it runs concerns it.
            context.control.stop.set(Stop::No);
        }
        // Its shards have not begun or have ended, so the place is free.
        self.running.borrow_mut().insert(workflow, context.clone());
        if self.script.is_some() {
            let result = tokio::select! {
                biased;
                result = script::run_aside(&context, what) => result.map(|json| {
                    [json.map(|json| json.into_bytes().into_boxed_slice())].into_iter().collect()
                }),
                () = context.told_to_stop(what == Hook::Setup) => Err(HookError::stopped()),
            };
            self.running.borrow_mut().remove(&workflow);
            (self.report)(Report::HookEnded { workflow, what, result });
            return;
        }
        let vu = Vu::new(context.clone(), 0);
        if context.choose_rows(&vu.vars, 0, 0).await != Rows::Chosen && context.leases_rows() {
            self.running.borrow_mut().remove(&workflow);
            let result = Err(HookError::steps("no data row is left for it".to_owned()));
            (self.report)(Report::HookEnded { workflow, what, result });
            return;
        }
        let program = context.workflow();
        let (block, stage) = match what {
            Hook::Setup => (&program.setup, program.setup_stage),
            Hook::Teardown => (&program.teardown, program.teardown_stage),
        };
        let result = tokio::select! {
            biased;
            result = vu.run_aside(block, stage) => {
                result.and_then(|()| values_left(&context, &vu)).map_err(HookError::steps)
            }
            () = context.told_to_stop(what == Hook::Setup) => Err(HookError::stopped()),
        };
        self.running.borrow_mut().remove(&workflow);
        (self.report)(Report::HookEnded { workflow, what, result });
    }

    fn swap(&self, empty: Window, empty_series: Option<Box<SeriesWindow>>, last: bool) {
        let running = self.running.borrow();
        let vus: Vec<_> =
            running.iter().map(|(&workflow, context)| (workflow, context.vus_shown())).collect();
        self.recorder.vus(vus.iter().map(|(_, count)| count).sum());
        let series = self.script.as_ref().map(|side| {
            let empty =
                empty_series.map_or_else(|| SeriesWindow::new(&side.run.layout), |one| *one);
            Box::new(side.recorder.swap(empty))
        });
        let unsent = self.script.as_ref().map_or(0, |side| side.recorder.take_samples_dropped());
        let swapped = Swapped {
            core: self.core,
            window: self.recorder.swap(empty),
            series,
            vus,
            under_way: self.recorder.under_way.get(),
            messages: self.recorder.new_messages(),
            samples_dropped: self.recorder.samples_dropped.take() + unsent,
            cpu: machine::thread_cpu(),
            loop_lag: std::mem::take(&mut *self.loop_lag.borrow_mut()),
            taken: running.values().map(|context| context.taken()).sum(),
            held: running.values().map(|context| context.held()).sum(),
            last,
        };
        (self.report)(Report::Swapped(Box::new(swapped)));
    }

    /// Nothing may be sent any more: then nothing more is worth waiting for, either.
    async fn watch_gate(self: Rc<Self>) {
        while !self.setup.send_control.permit().standing(clock::now()).is_final() {
            tokio::time::sleep(DEADLINE_GRAIN).await;
        }
        self.shut_out.set(true);
        self.stop.set(Stop::Now);
        self.each_control(|control| control.stop.set(Stop::Now));
        (self.report)(Report::ShutOut);
    }

    /// An event loop that is late makes every measurement late; so it is watched.
    async fn watch_lag(self: Rc<Self>) {
        loop {
            let before = clock::now();
            tokio::time::sleep(LAG_PERIOD).await;
            let slept = clock::now().nanos_since(before);
            // The timer's own grain is a millisecond, and no fault.
            let lag = slept.saturating_sub(LAG_PERIOD.as_nanos() as u64 + 1_000_000);
            self.loop_lag.borrow_mut().record_ns(lag);
        }
    }
}

/// What a setup leaves to others. Secrets stay here: variables that are made of them are made anew
/// wherever they are needed, and anything else is a mistake.
fn values_left(context: &ShardContext, vu: &Vu) -> Result<Base, String> {
    let (secrets, workflow) = (&context.program.secrets, context.workflow());
    let all = vu.vars.all();
    if secrets.is_empty() {
        return Ok(all);
    }
    let is_made_anew = |slot: usize| workflow.vars.iter().any(|(known, _)| *known == slot);
    let one = |(slot, value): (usize, &Option<Box<[u8]>>)| match value {
        Some(value) if secrets.occurs_in(value) => match is_made_anew(slot) {
            true => Ok(None),
            false => {
                let name = &workflow.slots[slot];
                Err(format!("`{name}` holds a secret; write `${{secret.NAME}}` where it is needed"))
            }
        },
        value => Ok(value.clone()),
    };
    all.iter().enumerate().map(one).collect()
}

async fn refresh_addresses(origins: Rc<OriginTable>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        for origin in origins.all() {
            // A failed look-up leaves the addresses as they were.
            let _ = origins.resolve(&origin).await;
        }
    }
}
