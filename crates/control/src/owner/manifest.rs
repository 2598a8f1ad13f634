//! What an owner has to know of a plan, and nothing more (R1): names, dependencies, sizes, lengths,
//! what is handed on.
//!
//! A manager never runs what a user wrote. A plan gives its manifest itself ([`Manifest::of`]); a
//! script's is made by the client, which has run its init code, and travels in the bundle.

use std::time::Duration;

use plan::{Action, DataOrder, Executor, Plan, Priority, Step, WhenExhausted, Workflow};
use serde::{Deserialize, Serialize};

use schedule::allocation::{self, Basis, Candidate, Need, Size};
use schedule::job::{BadShape, Shape};
use schedule::{self, Units};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub workflows: Vec<Part>,
    pub setup: bool,
    pub teardown: bool,
    pub data: Vec<DataPart>,
    /// The longest time the whole job may take, from its creation.
    pub timeout: Option<Duration>,
    pub policy: Policy,
}

/// One workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    /// Those that must complete before it, by number.
    pub depends_on: Vec<usize>,
    pub layer: usize,
    pub is_test: bool,
    #[serde(with = "as_number")]
    pub priority: Priority,
    pub vus_max: u32,
    pub need: Need,
    /// Requests that one iteration makes at most; `None` if that has no bound, or depends on more
    /// than the plan.
    pub requests_max: Option<u64>,
    /// Arrivals at a rate, rather than users that do the same over and over.
    pub is_open: bool,
    /// From the common start to the last moment at which it starts an iteration.
    pub length: Duration,
    pub graceful_stop: Duration,
    /// The longest that a healthy run may go without a count moving.
    pub quiet: Duration,
    /// How much it is, where the plan says so.
    pub units: Units,
    pub setup: bool,
    pub teardown: bool,
    pub provide: Vec<Provided>,
    /// The key, and the workflows that it may come from, in the order in which they are asked.
    pub uses: Vec<(String, Vec<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provided {
    pub key: String,
    pub to: Vec<String>,
    pub collect: bool,
}

/// A data set whose rows are leased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPart {
    pub rows: u64,
    /// Rows start again from the first when they are used up.
    pub recycle: bool,
    pub unique: bool,
}

/// What the user wants to happen when things are not as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub on_worker_loss: OnWorkerLoss,
    pub when_full: WhenFull,
    /// The fleet must have at least this many cores, or the plan does not fit.
    pub cores_min: u32,
    /// For how long a job may wait for cores, from its creation.
    pub queue_at_most: Duration,
    /// `None`: two minutes, or what the plan's own pauses need.
    pub stuck_after: Option<Duration>,
    pub when_none_left: WhenNoneLeft,
}

/// R19: the user's choice, and the timeline says which it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnWorkerLoss {
    #[default]
    Rebalance,
    /// Without what was lost.
    Continue,
    Fail,
}

/// What becomes of a plan that the fleet, as it is, has too few cores for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenFull {
    #[default]
    Queue,
    Refuse,
}

/// What becomes of a shard that has failed on every worker there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenNoneLeft {
    /// The one on which it failed longest ago gets another chance.
    #[default]
    Readmit,
    Fail,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_worker_loss: OnWorkerLoss::default(),
            when_full: WhenFull::default(),
            cores_min: 0,
            queue_at_most: Duration::from_secs(24 * 3600),
            stuck_after: None,
            when_none_left: WhenNoneLeft::default(),
        }
    }
}

impl Manifest {
    #[must_use]
    pub fn of(plan: &Plan, policy: Policy) -> Self {
        let layers = plan::layers(plan);
        let layer_of = |number: usize| {
            layers.iter().position(|layer| layer.contains(&number)).unwrap_or_default()
        };
        let candidates = allocation::candidates(plan);
        let number_of = |name: &String| plan.workflows.iter().position(|one| one.name == *name);
        let part = |(number, workflow): (usize, &Workflow)| Part {
            name: workflow.name.clone(),
            depends_on: workflow.depends_on.iter().filter_map(number_of).collect(),
            layer: layer_of(number),
            is_test: candidates[number].is_test,
            priority: workflow.priority,
            vus_max: candidates[number].vus_max,
            need: allocation::need(workflow),
            requests_max: requests_max(workflow),
            is_open: is_open(&workflow.load.executor),
            length: workflow.load.start_after + schedule::latest_end(&workflow.load),
            graceful_stop: workflow.load.graceful_stop,
            quiet: quiet(workflow),
            units: Units::of(&workflow.load.executor),
            setup: !workflow.setup.is_empty(),
            teardown: !workflow.teardown.is_empty(),
            provide: workflow.provide.iter().map(provided).collect(),
            uses: workflow.uses.iter().map(|one| (one.key.clone(), one.from.clone())).collect(),
        };
        Self {
            workflows: plan.workflows.iter().enumerate().map(part).collect(),
            setup: !plan.setup.is_empty(),
            teardown: !plan.teardown.is_empty(),
            data: plan.data.iter().map(data_part).collect(),
            timeout: plan.timeout,
            policy,
        }
    }

    /// Whether it can be followed at all: it came over the wire.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let count = self.workflows.len();
        if count == 0 {
            return Err("it has no workflow".to_owned());
        }
        for part in &self.workflows {
            let early = |number: &usize| {
                self.workflows.get(*number).is_some_and(|other| other.layer < part.layer)
            };
            if !part.depends_on.iter().all(early) || part.layer >= count {
                return Err(format!("the layers of {} do not fit its dependencies", part.name));
            }
        }
        Ok(())
    }

    /// Whose wish so many cores are, in words.
    #[must_use]
    pub fn who_needs(&self, cores: u32) -> &'static str {
        match self.policy.cores_min == cores {
            true => "--cores-min asks for",
            false => "the plan needs",
        }
    }

    /// The cores without which the job does not begin: what its submitter asked for, and what a
    /// workflow says exactly.
    #[must_use]
    pub fn cores_min(&self) -> u32 {
        let exact = self.workflows.iter().filter(|part| part.need.basis == Basis::Plan);
        let exact = exact.map(|part| part.need.cores).max().unwrap_or(0);
        self.policy.cores_min.max(exact).max(1)
    }

    pub(super) fn candidate(&self, workflow: usize) -> Candidate {
        let Part { name, priority, is_test, vus_max, need, .. } = &self.workflows[workflow];
        let (priority, is_test, vus_max) = (*priority, *is_test, *vus_max);
        let size = match (need.basis, priority) {
            (Basis::Plan, _) => Size::Exactly(need.cores),
            (_, Priority::Auto) => Size::AtMost(need.cores),
            // Whoever chooses a priority has said how much of the fleet it is to be.
            _ => Size::Any,
        };
        Candidate { name: name.clone(), priority, is_test, vus_max, size }
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.workflows.iter().position(|part| part.name == name)
    }

    /// The workflow-level machine's view. A layer is one wave to it; the owner divides layers into
    /// batches itself, because they depend on the pool at the time.
    pub(super) fn shape(&self) -> Result<Shape, BadShape> {
        let layers = self.workflows.iter().map(|part| part.layer + 1).max().unwrap_or(0);
        let mut waves = vec![vec![Vec::new()]; layers];
        for (number, part) in self.workflows.iter().enumerate() {
            waves[part.layer][0].push((number, Vec::new()));
        }
        let shape = Shape {
            names: self.workflows.iter().map(|part| part.name.clone()).collect(),
            depends_on: self.workflows.iter().map(|part| part.depends_on.clone()).collect(),
            layers: waves,
            setup: self.setup,
            teardown: self.teardown,
        };
        Ok(shape)
    }

    /// How long nothing may move before a job counts as stuck.
    #[must_use]
    pub fn stuck_after(&self) -> Duration {
        let pauses = self.workflows.iter().map(|part| part.quiet).max().unwrap_or_default();
        let default = Duration::from_secs(120).max(pauses.saturating_mul(2));
        self.policy.stuck_after.unwrap_or(default)
    }
}

/// Each hop of a redirect is a request, and each request may be made again once, on a new
/// connection. What users do before their first iteration is no part of any; and nobody knows what
/// a script does.
fn requests_max(workflow: &Workflow) -> Option<u64> {
    let is_plain = workflow.vu_setup.is_empty() && workflow.vu_teardown.is_empty();
    let most = most_of(&workflow.steps, workflow.http.redirects);
    (is_plain && !workflow.steps.is_empty()).then_some(most)
}

fn most_of(steps: &[Step], redirects: u32) -> u64 {
    let sum = |steps: &[Step]| most_of(steps, redirects);
    let of = |step: &Step| match &step.action {
        Action::Request(request) => 2 * (1 + u64::from(request.redirects.unwrap_or(redirects))),
        Action::Group { steps, .. } => sum(steps),
        Action::Repeat { times, steps, .. } => times.saturating_mul(sum(steps)),
        Action::Choose(branches) => branches.iter().map(|one| sum(&one.steps)).max().unwrap_or(0),
        Action::Think(_) | Action::Set(_) | Action::Record(_) => 0,
    };
    steps.iter().map(of).fold(0, u64::saturating_add)
}

fn provided(one: &plan::Provide) -> Provided {
    Provided { key: one.key.clone(), to: one.to.clone(), collect: one.collect }
}

fn data_part(set: &plan::DataSet) -> DataPart {
    DataPart {
        rows: set.rows,
        recycle: set.when_exhausted == WhenExhausted::Recycle,
        unique: matches!(set.order, DataOrder::UniquePerVu | DataOrder::UniquePerIteration),
    }
}

fn is_open(executor: &Executor) -> bool {
    matches!(executor, Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. })
}

/// One request that takes as long as it may, all pauses of an iteration, and the time between two
/// arrivals.
fn quiet(workflow: &Workflow) -> Duration {
    let steps = [&workflow.setup, &workflow.vu_setup, &workflow.steps, &workflow.vu_teardown];
    let pauses: Duration = steps.into_iter().flatten().map(pause).sum();
    let pacing = workflow.load.pacing.map_or(Duration::ZERO, |span| span.max);
    let between = match &workflow.load.executor {
        Executor::ConstantArrivalRate { rate, .. } => {
            rate.per / u32::try_from(rate.events.max(1)).unwrap_or(u32::MAX)
        }
        // A ramp may begin at nothing, and be as long as it likes.
        Executor::RampingArrivalRate { stages, .. } => stages.iter().map(|one| one.over).sum(),
        Executor::RampingVus { stages, .. } => stages.iter().map(|one| one.over).sum(),
        _ => Duration::ZERO,
    };
    let start = workflow.load.start_after;
    start + workflow.http.timeout + pauses + pacing + between
}

fn pause(step: &Step) -> Duration {
    match &step.action {
        Action::Think(span) => span.max,
        Action::Group { steps, .. } | Action::Repeat { steps, .. } => steps.iter().map(pause).sum(),
        Action::Choose(branches) => {
            let longest = |branch: &plan::Branch| branch.steps.iter().map(pause).sum();
            branches.iter().map(longest).max().unwrap_or_default()
        }
        Action::Request(_) | Action::Set(_) | Action::Record(_) => Duration::ZERO,
    }
}

/// A priority by its number, lowest first.
mod as_number {
    use plan::Priority;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const ALL: [Priority; 5] =
        [Priority::Low, Priority::Auto, Priority::Normal, Priority::High, Priority::Exclusive];

    pub fn serialize<S: Serializer>(priority: &Priority, to: S) -> Result<S::Ok, S::Error> {
        let number = ALL.iter().position(|one| one == priority).unwrap_or_default();
        to.serialize_u8(u8::try_from(number).unwrap_or_default())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Priority, D::Error> {
        let number = u8::deserialize(from)?;
        let found = ALL.get(usize::from(number)).copied();
        found.ok_or_else(|| D::Error::custom(format!("{number} is not a priority")))
    }
}
