//! A virtual user: works through a block of steps, over and over, with connections and cookies of
//! its own.
//!
//! It is an ordinary local task; waiting for an answer suspends it and nothing else. What it has
//! begun and not finished when it is cancelled is still counted: guards see to that when they are
//! dropped.

mod exchange;
mod render;

use base::clock;
use fence::Moment;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plan::Span;
use url::Url;

use crate::program::{Block, Op, Order, StepProgram};
use crate::shard::{Rows, ShardContext};
use crate::vars::Vars;
use client::Deadline;
use client::{Client, Jar, Progress, Response};

pub struct Vu {
    pub context: Rc<ShardContext>,
    /// Number within the workflow, from 0.
    pub index: u64,
    pub vars: Rc<Vars>,
    client: Client,
    jar: RefCell<Jar>,
    /// Buffers of exchanges, reused; more than one only where steps run concurrently.
    #[expect(clippy::vec_box, reason = "moved in and out for every request; it is large")]
    scratch: RefCell<Vec<Box<Scratch>>>,
    /// Start lag, to be charged to the iteration's first request: when it should have begun.
    charge_from: Cell<Option<Moment>>,
    /// The stage in which this iteration started; all of it is counted there.
    stage: Cell<usize>,
    /// Connections that were refused one after the other.
    refused: Cell<u32>,
    /// Something failed: outside of iterations (setup) that is an error of the workflow.
    pub trouble: RefCell<Option<String>>,
}

pub struct Scratch {
    wire: Vec<u8>,
    body: Vec<u8>,
    tags: String,
    url: Option<Url>,
    /// Sent with the last hop for a user in its URL; where the plan fixes that URL, it is a header.
    authorization: Option<String>,
    response: Response,
    progress: Progress,
    deadline: Deadline,
}

/// What came of asking for an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iterated {
    Done,
    /// A data set has no row left for it; nothing was begun.
    NoData,
    /// A row that was asked for did not come in time; nothing was begun.
    RowsLate,
}

/// Whether the rest of an iteration is still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Continue,
    EndIteration,
}

impl Vu {
    pub fn new(context: Rc<ShardContext>, index: u64) -> Rc<Vu> {
        let addresses = &context.settings.http.local_addresses;
        let local = match addresses.len() {
            0 => None,
            count => Some(addresses[index as usize % count]),
        };
        let seed = context.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slots = context.workflow().slots.len();
        let vars =
            Vars::new(slots, context.base.borrow().clone(), context.program.data.clone(), seed);
        vars.vu_id.set(index + 1);
        Rc::new(Vu {
            client: Client::new(context.settings.clone(), local),
            vars,
            jar: RefCell::default(),
            scratch: RefCell::default(),
            charge_from: Cell::new(None),
            refused: Cell::new(0),
            stage: Cell::new(context.stage.get()),
            trouble: RefCell::new(None),
            context,
            index,
        })
    }

    /// One pass over the steps. `intended`: when an open model wanted it to start.
    pub async fn iterate(&self, number: u64, intended: Option<Moment>) -> Iterated {
        match self.context.choose_rows(&self.vars, self.index, number).await {
            Rows::Chosen => {}
            Rows::Exhausted => return Iterated::NoData,
            Rows::Late => return Iterated::RowsLate,
        }
        let stage = self.context.stage.get();
        self.stage.set(stage);
        self.charge_from.set(intended);
        let begun = clock::now();
        if let Some(intended) = intended {
            self.context.recorder.started(stage, begun.nanos_since(intended));
        }
        self.fresh_iteration(number);
        let mut guard = IterationGuard { vu: self, stage, done: false };
        self.run(&self.context.workflow().steps).await;
        guard.done = true;
        // Whatever ended last has read the clock.
        self.context.recorder.iteration(stage, clock::recent().nanos_since(begun));
        self.vars.vu_iteration.set(self.vars.vu_iteration.get() + 1);
        Iterated::Done
    }

    /// Before the first iteration: warm connections, the user's own setup. False: it must not go
    /// on.
    pub async fn begin(&self) -> bool {
        if self.context.settings.http.warm {
            self.warm().await;
        }
        let workflow = self.context.workflow();
        if workflow.vu_setup.is_empty() {
            self.context.users_begun.set(self.context.users_begun.get() + 1);
            return true;
        }
        let rows = self.context.choose_rows(&self.vars, self.index, self.index).await;
        if rows != Rows::Chosen && self.context.leases_rows() {
            // Without a row of its own it would take somebody else's.
            self.context.data_exhausted.set(rows == Rows::Exhausted);
            self.context.setup_failures.set(self.context.setup_failures.get() + 1);
            return false;
        }
        let outcome = self.run_aside(&workflow.vu_setup, workflow.setup_stage).await;
        self.vars.rebase();
        let count = match &outcome {
            Ok(()) => &self.context.users_begun,
            Err(_) => &self.context.setup_failures,
        };
        count.set(count.get() + 1);
        outcome.is_ok()
    }

    /// After the last iteration.
    pub async fn end(&self) {
        let workflow = self.context.workflow();
        if !workflow.vu_teardown.is_empty() {
            // Its failures are counted like any other request's; there is nothing left to stop.
            let _ = self.run_aside(&workflow.vu_teardown, workflow.teardown_stage).await;
        }
    }

    /// Steps outside of iterations: setup, teardown, a virtual user's own beginning and end.
    pub async fn run_aside(&self, block: &Block, stage: usize) -> Result<(), String> {
        self.stage.set(stage);
        *self.trouble.borrow_mut() = None;
        self.set_variables();
        self.run(block).await;
        match self.trouble.borrow_mut().take() {
            Some(trouble) => Err(trouble),
            None => Ok(()),
        }
    }

    /// Opens connections before anything is measured.
    pub async fn warm(&self) {
        let scratch = self.take_scratch();
        for &origin in &self.context.workflow().warm_origins {
            let origin = self.context.settings.origins.get(origin);
            let limit = clock::now().after(self.context.settings.http.connect_timeout);
            scratch.deadline.arm(limit);
            // A target that is not there will say so again when it is measured.
            let _ = self.client.warm(&origin, &scratch.deadline).await;
            scratch.deadline.disarm();
        }
        self.scratch.borrow_mut().push(scratch);
    }

    fn fresh_iteration(&self, number: u64) {
        self.vars.forget();
        self.vars.iteration.set(number);
        if !self.context.settings.http.keep_cookies {
            let mut jar = self.jar.borrow_mut();
            let is_first = self.vars.vu_iteration.get() == 0;
            if is_first && !jar.is_empty() && !self.context.workflow().vu_setup.is_empty() {
                self.context.cookies_lost.set(self.context.cookies_lost.get() + 1);
            }
            jar.clear();
        }
        self.set_variables();
    }

    fn set_variables(&self) {
        for (slot, text) in &self.context.workflow().vars {
            text.assign(*slot, &self.vars);
        }
    }

    async fn run(&self, block: &Block) -> Flow {
        match &block.order {
            Order::Sequence => {
                for step in &block.steps {
                    if self.step(step).await == Flow::EndIteration {
                        return Flow::EndIteration;
                    }
                }
                Flow::Continue
            }
            Order::Graph(needs) => self.run_graph(&block.steps, needs).await,
        }
    }

    /// Each step starts as soon as all that it needs are done.
    async fn run_graph(&self, steps: &[StepProgram], needs: &[Vec<usize>]) -> Flow {
        let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
        let mut running = FuturesUnordered::new();
        let start = |index: usize| async move { (index, self.step(&steps[index]).await) };
        for index in (0..steps.len()).filter(|&index| missing[index] == 0) {
            running.push(start(index));
        }
        while let Some((done, flow)) = running.next().await {
            if flow == Flow::EndIteration {
                // The others are dropped where they stand; their requests count as interrupted.
                return Flow::EndIteration;
            }
            for (index, needed) in needs.iter().enumerate() {
                let count = needed.iter().filter(|&&step| step == done).count();
                if count > 0 {
                    missing[index] -= count;
                    if missing[index] == 0 {
                        running.push(start(index));
                    }
                }
            }
        }
        Flow::Continue
    }

    async fn step(&self, step: &StepProgram) -> Flow {
        if let Some(guard) = &step.when
            && !guard.holds(&self.vars)
        {
            return Flow::Continue;
        }
        match &step.op {
            Op::Request(request) => self.request(request).await,
            other => self.other(other).await,
        }
    }

    /// Boxed: these steps hold steps, and they are rare next to requests.
    fn other<'a>(&'a self, op: &'a Op) -> Pin<Box<dyn Future<Output = Flow> + 'a>> {
        Box::pin(async move {
            match op {
                Op::Request(request) => return self.request(request).await,
                Op::Think(span) => self.think(*span).await,
                Op::Set(values) => {
                    for (slot, text) in values {
                        text.assign(*slot, &self.vars);
                    }
                }
                Op::Record(records) => self.record(records, 0),
                Op::Group(block) => return self.run(block).await,
                Op::Repeat { times, until, body } => {
                    for _ in 0..*times {
                        if self.run(body).await == Flow::EndIteration {
                            return Flow::EndIteration;
                        }
                        if until.as_ref().is_some_and(|until| until.holds(&self.vars)) {
                            break;
                        }
                        tokio::task::consume_budget().await;
                    }
                }
                Op::Choose { branches } => {
                    let total = branches.last().map_or(0, |(sum, _)| *sum);
                    if total > 0 {
                        let draw = self.vars.rng.borrow_mut().u32(..total);
                        let chosen = branches.iter().find(|(sum, _)| draw < *sum);
                        if let Some((_, block)) = chosen {
                            return self.run(block).await;
                        }
                    }
                }
            }
            Flow::Continue
        })
    }

    pub async fn think(&self, span: Span) {
        let wait = self.draw(span);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
            clock::now();
        }
    }

    pub fn draw(&self, span: Span) -> std::time::Duration {
        if span.min >= span.max {
            return span.min;
        }
        let range = span.min.as_nanos() as u64..=span.max.as_nanos() as u64;
        std::time::Duration::from_nanos(self.vars.rng.borrow_mut().u64(range))
    }

    /// Feeds metrics of the plan's own; `step` is the number within the workflow.
    fn record(&self, records: &[(usize, crate::text::Text)], step: usize) {
        for (metric, text) in records {
            let value = text.to_bytes(&self.vars);
            let value = String::from_utf8_lossy(&value);
            let number = match value.trim() {
                "true" => Some(1.0),
                "false" => Some(0.0),
                other => other.parse::<f64>().ok().filter(|number| number.is_finite()),
            };
            match number {
                Some(number) => self.context.recorder.custom(self.stage.get(), *metric, number),
                None => {
                    self.context.unrecordable.set(self.context.unrecordable.get() + 1);
                    let step = self.context.first_step() + step;
                    self.context.recorder.remark(step, stats::ErrorKind::Extract, || {
                        let name = &self.context.program.layout.metrics[*metric].name;
                        let value: String = value.chars().take(40).collect();
                        let text = format!("{}`{value}` for `{name}`", stats::UNRECORDED);
                        self.context.program.shown.shown(text)
                    });
                }
            }
        }
    }

    fn take_scratch(&self) -> Box<Scratch> {
        let reused = self.scratch.borrow_mut().pop();
        reused.unwrap_or_else(|| {
            Box::new(Scratch {
                wire: Vec::new(),
                body: Vec::new(),
                tags: String::new(),
                url: None,
                authorization: None,
                response: Response::default(),
                progress: Progress::default(),
                deadline: self.context.deadlines.slot(),
            })
        })
    }
}

/// Counts an iteration that is dropped before its end.
struct IterationGuard<'a> {
    vu: &'a Vu,
    stage: usize,
    done: bool,
}

impl Drop for IterationGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.vu.context.recorder.iteration_interrupted(self.stage);
        }
    }
}
