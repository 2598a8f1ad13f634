//! A plan's load, as the command line wants it: another number of users, another time, or another kind of load.
//!
//! `--rate`, `--iterations` and `--stage` say what kind of load it is, and take the place of the plan's; what they
//! leave open (how long, how many users) stays as the plan has it. `--vus` and `--duration` change numbers of whatever
//! there is then. Each holds for all workflows.

use std::time::Duration;

use plan::{Executor, Plan, Stage};

use crate::cli::RunArgs;

/// Of a load that says no time itself.
const DURATION: Duration = Duration::from_secs(10);
/// k6's, for stages from the command line.
const START_VUS: u32 = 1;

/// # Errors
/// If a flag changes nothing in this plan.
pub fn apply(plan: &mut Plan, args: &RunArgs) -> Result<(), String> {
    for workflow in &mut plan.workflows {
        if let Some(executor) = replaced(&workflow.load.executor, args) {
            workflow.load.executor = executor;
            // It was the plan's own load's.
            workflow.load.warmup = None;
        }
    }
    let mut vus_used = args.vus.is_none();
    let mut duration_used = args.duration.is_none();
    for workflow in &mut plan.workflows {
        let executor = &mut workflow.load.executor;
        if let Some(vus) = args.vus {
            vus_used |= override_vus(executor, vus);
        }
        if let Some(duration) = args.duration {
            duration_used |= override_duration(executor, duration);
        }
    }
    if !vus_used {
        return Err("--vus: no workflow of this plan has virtual users to set".to_owned());
    }
    if !duration_used {
        return Err("--duration: no workflow of this plan runs for a time".to_owned());
    }
    Ok(())
}

/// Stages are scaled so that their highest point is the number asked for.
fn override_vus(executor: &mut Executor, wanted: u32) -> bool {
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
        | Executor::RampingArrivalRate { max_vus, .. } => {
            *max_vus = Some(wanted);
        }
    }
    true
}

/// Stages keep their proportions.
fn override_duration(executor: &mut Executor, wanted: Duration) -> bool {
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
    true
}

/// The load that the command line asks for, with what the plan says of the rest.
fn replaced(executor: &Executor, args: &RunArgs) -> Option<Executor> {
    let users = match executor {
        Executor::ConstantVus { vus, .. }
        | Executor::PerVuIterations { vus, .. }
        | Executor::SharedIterations { vus, .. } => Some(*vus),
        Executor::RampingVus { stages, .. } => stages.iter().map(|stage| stage.to).max(),
        Executor::ConstantArrivalRate { max_vus, .. }
        | Executor::RampingArrivalRate { max_vus, .. } => *max_vus,
    };
    if let Some(rate) = args.rate {
        let duration = executor.scheduled().filter(|time| !time.is_zero()).unwrap_or(DURATION);
        return Some(Executor::ConstantArrivalRate { rate, duration, vus: None, max_vus: users });
    }
    if let Some(iterations) = args.script.iterations {
        let vus = users.unwrap_or(1).max(1);
        let max_duration = Duration::from_secs(600);
        return Some(Executor::SharedIterations { vus, iterations, max_duration });
    }
    let stages: Vec<Stage<u32>> = args.script.stages.iter().flatten().map(stage).collect();
    (!stages.is_empty()).then(|| Executor::RampingVus {
        start: START_VUS,
        stages,
        graceful_ramp_down: Duration::from_secs(30),
    })
}

fn stage(stage: &script::options::StageOptions) -> Stage<u32> {
    let to = u32::try_from(stage.target.unwrap_or(0)).unwrap_or(u32::MAX);
    Stage { name: None, to, over: stage.duration.unwrap_or_default() }
}
