//! Another load than the one that a plan has: another number of users, another time, or another
//! kind of load.
//!
//! A rate, a number of iterations and stages say what kind of load it is, and take the place of the
//! plan's; what they leave open (how long, how many users) stays as the plan has it. Users and
//! duration change numbers of whatever there is then. Each holds for all workflows.

use std::fmt;
use std::time::Duration;

use crate::{Executor, Plan, Rate, Stage};

/// Of a load that says no time itself.
const DURATION: Duration = Duration::from_secs(10);
/// A number of iterations has to end some time, as a plan's own does.
const ITERATIONS_WITHIN: Duration = Duration::from_secs(600);
/// k6's, for stages from the command line.
const START_VUS: u32 = 1;
/// k6's, for stages from the command line.
const RAMP_DOWN: Duration = Duration::from_secs(30);

/// What is to be different; what is `None` or empty stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadOverrides {
    /// Virtual users. Stages keep their shape, and for a rate it is the most that may be used.
    pub vus: Option<u32>,
    /// Stages keep their shape.
    pub duration: Option<Duration>,
    /// Arrivals at an even pace.
    pub rate: Option<Rate>,
    /// Iterations, shared by the virtual users.
    pub iterations: Option<u64>,
    pub stages: Vec<Stage<u32>>,
}

/// A wish that changes nothing in this plan, which whoever has it should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideError {
    NoVus,
    NoDuration,
    /// The warm-up that the plan has takes all of the time that was asked for.
    AllWarmup {
        workflow: String,
        warmup: Duration,
    },
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverrideError::NoVus => {
                f.write_str("no workflow of this plan has virtual users to set")
            }
            OverrideError::NoDuration => f.write_str("no workflow of this plan runs for a time"),
            OverrideError::AllWarmup { workflow, warmup } => write!(
                f,
                "the warm-up of `{workflow}` ({warmup:?}) takes the whole run; ask for a longer one, or take \
                 `warmup` out of the plan"
            ),
        }
    }
}

impl std::error::Error for OverrideError {}

impl LoadOverrides {
    /// # Errors
    /// If a wish changes nothing in this plan.
    pub fn apply(&self, plan: &mut Plan) -> Result<(), OverrideError> {
        let is_empty = plan.workflows.is_empty();
        if is_empty && self.vus.is_some() {
            return Err(OverrideError::NoVus);
        }
        if is_empty && self.duration.is_some() {
            return Err(OverrideError::NoDuration);
        }
        for workflow in &mut plan.workflows {
            if let Some(executor) = self.replaced(&workflow.load.executor) {
                workflow.load.executor = executor;
                // It was the plan's own load's.
                workflow.load.warmup = None;
            }
            let executor = &mut workflow.load.executor;
            if let Some(vus) = self.vus {
                set_vus(executor, vus);
            }
            if let Some(duration) = self.duration {
                set_duration(executor, duration);
                let warmup = workflow.load.warmup.filter(|warmup| *warmup >= duration);
                if let (Some(warmup), Some(_)) = (warmup, workflow.load.executor.scheduled()) {
                    let workflow = workflow.name.clone();
                    return Err(OverrideError::AllWarmup { workflow, warmup });
                }
            }
        }
        Ok(())
    }

    /// The load that is asked for, with what the plan says of the rest.
    fn replaced(&self, executor: &Executor) -> Option<Executor> {
        let users = match executor {
            Executor::ConstantVus { vus, .. }
            | Executor::PerVuIterations { vus, .. }
            | Executor::SharedIterations { vus, .. } => Some(*vus),
            Executor::RampingVus { stages, .. } => stages.iter().map(|stage| stage.to).max(),
            Executor::ConstantArrivalRate { max_vus, .. }
            | Executor::RampingArrivalRate { max_vus, .. } => *max_vus,
        };
        if let Some(rate) = self.rate {
            let duration = executor.scheduled().filter(|time| !time.is_zero()).unwrap_or(DURATION);
            let (vus, max_vus) = (None, users);
            return Some(Executor::ConstantArrivalRate { rate, duration, vus, max_vus });
        }
        if let Some(iterations) = self.iterations {
            let vus = users.unwrap_or(1).max(1);
            let max_duration = ITERATIONS_WITHIN;
            return Some(Executor::SharedIterations { vus, iterations, max_duration });
        }
        (!self.stages.is_empty()).then(|| Executor::RampingVus {
            start: START_VUS,
            stages: self.stages.clone(),
            graceful_ramp_down: RAMP_DOWN,
        })
    }
}

/// Stages are scaled so that their highest point is the number asked for.
fn set_vus(executor: &mut Executor, wanted: u32) {
    match executor {
        Executor::ConstantVus { vus, .. }
        | Executor::PerVuIterations { vus, .. }
        | Executor::SharedIterations { vus, .. } => *vus = wanted,
        Executor::RampingVus { start, stages, .. } => {
            let peak =
                stages.iter().map(|stage| stage.to).chain([*start]).max().unwrap_or(0).max(1);
            let scale =
                |vus: u32| (u64::from(vus) * u64::from(wanted)).div_ceil(u64::from(peak)) as u32;
            *start = scale(*start);
            stages.iter_mut().for_each(|stage| stage.to = scale(stage.to));
        }
        Executor::ConstantArrivalRate { max_vus, .. }
        | Executor::RampingArrivalRate { max_vus, .. } => *max_vus = Some(wanted),
    }
}

/// Stages keep their proportions.
fn set_duration(executor: &mut Executor, wanted: Duration) {
    fn stretch<T>(stages: &mut [Stage<T>], wanted: Duration) {
        let total: Duration = stages.iter().map(|stage| stage.over).sum();
        let factor = wanted.as_secs_f64() / total.as_secs_f64().max(1e-9);
        stages.iter_mut().for_each(|stage| stage.over = stage.over.mul_f64(factor));
    }
    match executor {
        Executor::ConstantVus { duration, .. } | Executor::ConstantArrivalRate { duration, .. } => {
            *duration = wanted;
        }
        Executor::RampingVus { stages, .. } => stretch(stages, wanted),
        Executor::RampingArrivalRate { stages, .. } => stretch(stages, wanted),
        Executor::PerVuIterations { max_duration, .. }
        | Executor::SharedIterations { max_duration, .. } => *max_duration = wanted,
    }
}

/// Leaves one iteration by one user of each workflow, so that what is shown of it can be read.
pub fn to_one_iteration(plan: &mut Plan) {
    for workflow in &mut plan.workflows {
        workflow.load.executor =
            Executor::PerVuIterations { vus: 1, iterations: 1, max_duration: ITERATIONS_WITHIN };
        workflow.load.start_after = Duration::ZERO;
        workflow.load.warmup = None;
        workflow.load.pacing = None;
    }
    // Thresholds speak of a load that there is not.
    plan.thresholds.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpOptions, Load, Workflow};

    const SECOND: Duration = Duration::from_secs(1);

    fn stage(to: u32, seconds: u32) -> Stage<u32> {
        Stage { name: None, to, over: SECOND * seconds }
    }

    fn ramp(start: u32, stages: Vec<Stage<u32>>) -> Executor {
        Executor::RampingVus { start, stages, graceful_ramp_down: RAMP_DOWN }
    }

    fn plan_of(executor: Executor) -> Plan {
        let load = Load {
            executor,
            start_after: SECOND,
            graceful_stop: SECOND,
            warmup: Some(SECOND),
            pacing: None,
        };
        let http = HttpOptions::default();
        Plan::bare("p", http.clone(), vec![Workflow::bare("w", load, http)])
    }

    /// The load of `executor` after `overrides`, and whether its warm-up is left.
    #[track_caller]
    fn changed(executor: Executor, overrides: &LoadOverrides) -> (Executor, bool) {
        let mut plan = plan_of(executor);
        overrides.apply(&mut plan).unwrap();
        let load = plan.workflows.remove(0).load;
        (load.executor, load.warmup.is_some())
    }

    #[test]
    fn users_and_duration_change_numbers_and_stages_keep_their_shape() {
        let both = LoadOverrides {
            vus: Some(20),
            duration: Some(SECOND * 60),
            ..LoadOverrides::default()
        };
        let closed = Executor::ConstantVus { vus: 5, duration: SECOND };
        let wanted = Executor::ConstantVus { vus: 20, duration: SECOND * 60 };
        assert_eq!(changed(closed, &both), (wanted, true));
        let stages = ramp(1, vec![stage(10, 1), stage(10, 4), stage(0, 1)]);
        let wanted = ramp(2, vec![stage(20, 10), stage(20, 40), stage(0, 10)]);
        assert_eq!(changed(stages, &both), (wanted, true));
        let rate = Rate { events: 5, per: SECOND };
        let open =
            Executor::ConstantArrivalRate { rate, duration: SECOND, vus: Some(1), max_vus: None };
        let wanted = Executor::ConstantArrivalRate {
            rate,
            duration: SECOND * 60,
            vus: Some(1),
            max_vus: Some(20),
        };
        assert_eq!(changed(open, &both), (wanted, true));
    }

    #[test]
    fn another_kind_of_load_keeps_what_it_does_not_say_and_drops_the_warm_up() {
        let closed = Executor::ConstantVus { vus: 5, duration: SECOND * 7 };
        let rate = Rate { events: 90, per: SECOND * 60 };
        let to_rate = LoadOverrides { rate: Some(rate), ..LoadOverrides::default() };
        let (duration, vus, max_vus) = (SECOND * 7, None, Some(5));
        let wanted = Executor::ConstantArrivalRate { rate, duration, vus, max_vus };
        assert_eq!(changed(closed.clone(), &to_rate), (wanted, false));
        let to_count = LoadOverrides { iterations: Some(9), ..LoadOverrides::default() };
        let max_duration = ITERATIONS_WITHIN;
        let wanted = Executor::SharedIterations { vus: 5, iterations: 9, max_duration };
        assert_eq!(changed(closed.clone(), &to_count), (wanted, false));
        let to_stages = LoadOverrides { stages: vec![stage(3, 2)], ..LoadOverrides::default() };
        let wanted = ramp(START_VUS, vec![stage(3, 2)]);
        assert_eq!(changed(closed, &to_stages), (wanted, false));
    }

    #[test]
    fn what_changes_nothing_is_an_error() {
        let mut none = Plan::bare("p", HttpOptions::default(), Vec::new());
        let vus = LoadOverrides { vus: Some(1), ..LoadOverrides::default() };
        assert_eq!(vus.apply(&mut none), Err(OverrideError::NoVus));
        let time = LoadOverrides { duration: Some(SECOND), ..LoadOverrides::default() };
        assert_eq!(time.apply(&mut none), Err(OverrideError::NoDuration));
        assert_eq!(LoadOverrides::default().apply(&mut none), Ok(()));
    }

    #[test]
    fn one_iteration_starts_at_once_and_is_not_judged() {
        let mut plan = plan_of(Executor::ConstantVus { vus: 5, duration: SECOND });
        to_one_iteration(&mut plan);
        let load = &plan.workflows[0].load;
        let expected =
            Executor::PerVuIterations { vus: 1, iterations: 1, max_duration: ITERATIONS_WITHIN };
        assert_eq!(load.executor, expected);
        assert!(load.start_after.is_zero() && load.warmup.is_none() && plan.thresholds.is_empty());
    }
}
