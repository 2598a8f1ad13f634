//! What native functions know of the virtual user that calls them.
//!
//! A [`Host`] belongs to one virtual user and one thread. Native functions hold it by `Rc`; it
//! holds nothing of the JavaScript runtime except what [`Host::forget`] lets go of.

use std::cell::{Cell, Ref, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use client::{Client, Deadlines, ExchangeEnd, Jar, Progress, Settings};
use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use rquickjs::{Ctx, JsLifetime};
use stats::series::{SampleTags, builtin};

use crate::fiber::{Cancelled, FiberSide};
use crate::log::{Level, Line, Logger};
use crate::program::Script;
use crate::recorder::ScriptRecorder;
use crate::tags::{SampleScope, SystemTags, TagSet};
use crate::thrown::ThrownKind;

/// Which part of a script's life is being run; it decides what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Init,
    Setup,
    Iteration,
    Teardown,
    Summary,
}

/// The scenario that a virtual user serves.
#[derive(Debug, Default)]
pub struct Scenario {
    pub name: String,
    /// As k6 writes it: `constant-vus`.
    pub executor: String,
    pub exec: String,
    pub tags: TagSet,
    pub env: Vec<(String, String)>,
}

/// What the machine as a whole is doing (`exec.instance`).
#[derive(Debug, Clone, Copy, Default)]
pub struct InstanceFacts {
    pub iterations_completed: u64,
    pub iterations_interrupted: u64,
    pub vus_active: u64,
    pub vus_initialized: u64,
    pub run_duration_ms: f64,
}

/// What a virtual user can ask of, or tell, whoever runs it.
pub trait HostEnvironment {
    /// How much of the scenario is over, from 0 to 1.
    fn progress(&self) -> f64;
    fn scenario_started_unix_ms(&self) -> f64;
    /// Until iterations of the scenario are cut off; `None`: nothing does that.
    fn time_left(&self) -> Option<std::time::Duration> {
        None
    }
    fn instance(&self) -> InstanceFacts;
    /// Ends the whole test.
    fn abort(&self, reason: &str);
    /// Marks the whole test as failed and goes on.
    fn mark_failed(&self, reason: &str);
    /// When the next request may be sent, where there is a limit of requests a second.
    fn next_request_at(&self) -> Option<fence::Moment>;
    /// A request begins; [`HostEnvironment::ended`] follows, however it ends.
    fn begun(&self) {}
    fn ended(&self) {}
    /// A request ended, well or badly: for the counts that equal the target's. `name`: its tag.
    fn exchanged(&self, progress: &Progress, ended: ExchangeEnd, name: &str);
    /// A request was cut off.
    fn interrupted(&self, progress: &Progress);
}

/// Before a test and after it: nothing is measured, and there is nothing to end.
pub struct Alone;

impl HostEnvironment for Alone {
    fn progress(&self) -> f64 {
        0.0
    }
    fn scenario_started_unix_ms(&self) -> f64 {
        0.0
    }
    fn instance(&self) -> InstanceFacts {
        InstanceFacts::default()
    }
    fn abort(&self, _reason: &str) {}
    fn mark_failed(&self, _reason: &str) {}
    fn next_request_at(&self) -> Option<fence::Moment> {
        None
    }
    fn exchanged(&self, _progress: &Progress, _ended: ExchangeEnd, _name: &str) {}
    fn interrupted(&self, _progress: &Progress) {}
}

/// Everything that a virtual user is made from.
#[derive(Clone)]
pub struct VuSetup {
    pub script: Arc<Script>,
    pub recorder: Rc<ScriptRecorder>,
    pub logger: Logger,
    pub scenario: Rc<Scenario>,
    pub environment: Rc<dyn HostEnvironment>,
    pub settings: Rc<Settings>,
    pub deadlines: Rc<Deadlines>,
    pub local_address: Option<IpAddr>,
    /// From 1, over all scenarios and machines; 0 for setup, teardown and the summary.
    pub id_in_test: u64,
    pub id_in_instance: u64,
}

/// Something that a finished wait does to the script: settles a promise, calls a timer's function.
pub type Completion = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<()>>;
type Waiting = Pin<Box<dyn Future<Output = Option<Completion>>>>;

pub struct Host {
    pub setup: VuSetup,
    pub fiber: Rc<FiberSide>,
    pub phase: Cell<Phase>,
    pub client: Client,
    /// The virtual user's own cookies.
    pub jar: Rc<RefCell<Jar>>,
    /// What every sample is tagged with: run, scenario, `exec.vu.metrics.tags`, group.
    pub tags: RefCell<TagSet>,
    /// `vu` and `iter`, where they are wanted as system tags.
    pub metadata: RefCell<TagSet>,
    /// Path of the group that the script is in: empty, or `::outer::inner`.
    pub group: RefCell<String>,
    pub iteration: Cell<u64>,
    /// Number of the iteration within its scenario, on this machine and over all machines.
    pub iteration_in_instance: Cell<u64>,
    pub iteration_in_test: Cell<u64>,
    /// What an asynchronous call or a timer is waiting for.
    waiting: RefCell<FuturesUnordered<Waiting>>,
    /// Why the script has ended the whole test, and by what.
    pub aborted: RefCell<Option<(String, ThrownKind)>>,
    /// Bytes sent and received since the last record.
    traffic: Cell<(u64, u64)>,
    /// State of native modules that outlives a call.
    pub cells: crate::modules::Cells,
}

impl Host {
    pub fn new(setup: VuSetup, fiber: Rc<FiberSide>) -> Rc<Host> {
        let client = Client::new(setup.settings.clone(), setup.local_address);
        let host = Host {
            client,
            fiber,
            phase: Cell::new(Phase::Init),
            jar: Rc::default(),
            tags: RefCell::default(),
            metadata: RefCell::default(),
            group: RefCell::default(),
            iteration: Cell::new(0),
            iteration_in_instance: Cell::new(0),
            iteration_in_test: Cell::new(0),
            waiting: RefCell::default(),
            aborted: RefCell::new(None),
            traffic: Cell::new((0, 0)),
            cells: crate::modules::Cells::default(),
            setup,
        };
        Rc::new(host)
    }

    /// Before each iteration: cookies and groups of the last one are gone.
    pub fn begin_iteration(&self, iteration: u64, in_instance: u64, in_test: u64) {
        self.iteration.set(iteration);
        self.iteration_in_instance.set(in_instance);
        self.iteration_in_test.set(in_test);
        let rules = self.script().rules();
        if !rules.no_cookies_reset {
            self.jar.borrow_mut().clear();
        }
        if rules.no_vu_connection_reuse && iteration > 0 {
            self.client.disconnect();
        }
        if iteration == 0 {
            self.set_tags();
        }
        if !self.group.borrow().is_empty() {
            crate::modules::core::enter(self, "");
        }
        let mut metadata = self.metadata.borrow_mut();
        if rules.system_tags.has(SystemTags::VU) {
            metadata.set("vu", &self.setup.id_in_test.to_string());
        }
        if rules.system_tags.has(SystemTags::ITER) {
            metadata.set("iter", &iteration.to_string());
        }
    }

    /// Before `setup` and `teardown`, which are groups of their own.
    pub fn begin_aside(&self, name: &str) {
        self.set_tags();
        crate::modules::core::enter(self, &format!("::{name}"));
    }

    pub fn add_traffic(&self, sent: u64, received: u64) {
        let (before_sent, before_received) = self.traffic.get();
        self.traffic.set((before_sent + sent, before_received + received));
    }

    /// Traffic is recorded once for each iteration, even if there was none.
    pub fn record_traffic(&self) {
        let (sent, received) = self.traffic.take();
        let values = [(builtin::DATA_SENT, sent as f64), (builtin::DATA_RECEIVED, received as f64)];
        self.recorder().record_all(&values, &self.scope());
    }

    fn set_tags(&self) {
        let rules = self.script().rules();
        let mut tags = rules.tags.with(&self.setup.scenario.tags);
        if rules.system_tags.has(SystemTags::SCENARIO) && !self.setup.scenario.name.is_empty() {
            tags.set("scenario", &self.setup.scenario.name);
        }
        if rules.system_tags.has(SystemTags::GROUP) {
            tags.set("group", "");
        }
        *self.tags.borrow_mut() = tags;
    }

    pub fn script(&self) -> &Script {
        &self.setup.script
    }

    pub fn recorder(&self) -> &ScriptRecorder {
        &self.setup.recorder
    }

    /// Suspends the script until the future is ready.
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Cancelled> {
        self.fiber.wait(future)
    }

    /// Hands something to the event loop; what it returns is done when it is ready.
    pub fn later(&self, future: impl Future<Output = Option<Completion>> + 'static) {
        self.waiting.borrow_mut().push(Box::pin(future));
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Suspends the script until something handed to the event loop is ready. `None`: nothing is
    /// waited for.
    pub fn next_completion(&self) -> Result<Option<Completion>, Cancelled> {
        loop {
            let next =
                poll_fn(|context| Pin::new(&mut *self.waiting.borrow_mut()).poll_next(context));
            match self.wait(next)? {
                // A timer that was cleared.
                Some(None) => {}
                Some(Some(completion)) => return Ok(Some(completion)),
                None => return Ok(None),
            }
        }
    }

    /// Lets go of everything that refers to the JavaScript runtime, or is left of an iteration.
    pub fn forget(&self) {
        if self.has_waiting() {
            drop(self.waiting.replace(FuturesUnordered::new()));
        }
    }

    pub fn log(&self, line: Line) {
        (self.setup.logger)(line);
    }

    pub fn warn(&self, message: impl Into<String>) {
        self.log(Line::new(Level::Warning, message));
    }

    /// Tags of the moment, for samples that add none of their own.
    pub fn scope(&self) -> Scope<'_> {
        self.scope_with(&[])
    }

    pub fn scope_with<'a>(&'a self, own: &'a [(Arc<str>, Arc<str>)]) -> Scope<'a> {
        Scope { host: self, base: self.tags.borrow(), own }
    }

    pub fn system_tags(&self) -> SystemTags {
        self.script().rules().system_tags
    }

    pub fn sample_tags(&self, own: &[(Arc<str>, Arc<str>)]) -> SampleTags {
        let mut tags = self.tags.borrow().clone();
        for (key, value) in own {
            tags.set(key, value);
        }
        let metadata = self.metadata.borrow();
        let pairs = tags.iter().map(|(key, value)| (&**key, &**value));
        SampleTags::new(pairs, metadata.iter().map(|(key, value)| (&**key, &**value)))
    }
}

/// Tags of one sample of a virtual user: its own over those of the moment.
pub struct Scope<'a> {
    host: &'a Host,
    base: Ref<'a, TagSet>,
    own: &'a [(Arc<str>, Arc<str>)],
}

impl stats::series::Tags for Scope<'_> {
    fn tag(&self, key: &str) -> Option<&str> {
        match self.own.iter().find(|(known, _)| **known == *key) {
            Some((_, value)) => Some(value),
            None => self.base.get(key),
        }
    }
}

impl SampleScope for Scope<'_> {
    fn sample_tags(&self) -> SampleTags {
        self.host.sample_tags(self.own)
    }
}

/// How native functions find their host when they hold none.
#[derive(Clone)]
pub struct HostRef(pub Rc<Host>);

// SAFETY: holds no JavaScript values.
unsafe impl<'js> JsLifetime<'js> for HostRef {
    type Changed<'to> = HostRef;
}
