//! Questions that both the checks and whoever runs a plan ask of the model.

use std::time::Duration;

use crate::model::{Action, Executor, Load, Stage, Step, Workflow};

/// The `stage` tag of the warm-up.
pub const WARMUP: &str = "warmup";

impl<T> Stage<T> {
    /// The `stage` tag: the given name, or `stage-1`, `stage-2` ...
    pub fn label(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("stage-{}", index + 1))
    }
}

impl Load {
    /// All values that the `stage` tag can have here, in order.
    pub fn stage_labels(&self) -> Vec<String> {
        let warmup = self.warmup.map(|_| WARMUP.to_owned());
        warmup.into_iter().chain(self.executor.stage_labels()).collect()
    }
}

impl Executor {
    /// As plans write it.
    pub fn name(&self) -> &'static str {
        match self {
            Executor::ConstantVus { .. } => "constant-vus",
            Executor::RampingVus { .. } => "ramping-vus",
            Executor::PerVuIterations { .. } => "per-vu-iterations",
            Executor::SharedIterations { .. } => "shared-iterations",
            Executor::ConstantArrivalRate { .. } => "constant-arrival-rate",
            Executor::RampingArrivalRate { .. } => "ramping-arrival-rate",
        }
    }

    fn stage_labels(&self) -> Vec<String> {
        fn labels<T>(stages: &[Stage<T>]) -> Vec<String> {
            stages.iter().enumerate().map(|(index, stage)| stage.label(index)).collect()
        }
        match self {
            Executor::RampingVus { stages, .. } => labels(stages),
            Executor::RampingArrivalRate { stages, .. } => labels(stages),
            _ => Vec::new(),
        }
    }

    /// How long it runs by its schedule; `None` if iterations decide.
    pub fn scheduled(&self) -> Option<Duration> {
        match self {
            Executor::ConstantVus { duration, .. }
            | Executor::ConstantArrivalRate { duration, .. } => Some(*duration),
            Executor::RampingVus { stages, .. } => Some(stages.iter().map(|s| s.over).sum()),
            Executor::RampingArrivalRate { stages, .. } => {
                Some(stages.iter().map(|s| s.over).sum())
            }
            Executor::PerVuIterations { .. } | Executor::SharedIterations { .. } => None,
        }
    }
}

impl Step {
    /// The lists of steps inside this step: one for a group or loop, one per branch of a choice.
    pub fn inner(&self) -> Vec<&[Step]> {
        match &self.action {
            Action::Group { steps, .. } | Action::Repeat { steps, .. } => vec![steps],
            Action::Choose(branches) => branches.iter().map(|b| b.steps.as_slice()).collect(),
            Action::Request(_) | Action::Think(_) | Action::Set(_) | Action::Record(_) => {
                Vec::new()
            }
        }
    }

    /// Calls `visit` for this step and all steps inside it, in the order of the file.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        visit(self);
        for list in self.inner() {
            list.iter().for_each(|step| step.walk(visit));
        }
    }
}

impl Workflow {
    /// The pauses of one iteration, at the shortest.
    pub fn pauses(&self) -> Duration {
        pauses(&self.steps, self.concurrent)
    }
}

fn pauses(steps: &[Step], concurrent: bool) -> Duration {
    let each = steps.iter().map(Step::pauses);
    // Steps with `needs` may be beside each other; the longest takes its time at any rate.
    match concurrent || steps.iter().any(|step| step.needs.is_some()) {
        true => each.max().unwrap_or_default(),
        false => each.fold(Duration::ZERO, Duration::saturating_add),
    }
}

impl Step {
    /// At the shortest: nothing if a condition may skip it.
    fn pauses(&self) -> Duration {
        match &self.action {
            _ if self.when.is_some() => Duration::ZERO,
            Action::Think(span) => span.min,
            Action::Group { steps, concurrent } => pauses(steps, *concurrent),
            Action::Repeat { times, until, steps } => {
                let times = if until.is_some() { 1 } else { *times };
                let times = u32::try_from(times).unwrap_or(u32::MAX);
                pauses(steps, false).saturating_mul(times)
            }
            Action::Choose(branches) => {
                branches.iter().map(|b| pauses(&b.steps, false)).min().unwrap_or_default()
            }
            Action::Request(_) | Action::Set(_) | Action::Record(_) => Duration::ZERO,
        }
    }
}
