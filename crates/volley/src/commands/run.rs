//! `volley run PLAN`

use std::path::Path;
use std::sync::Arc;

use plan::{Executor, Plan, ReadOptions, Stage};

use super::runner::{Style, run_plan};
use crate::cli::RunArgs;
use crate::{exit, print};

pub fn run(args: &RunArgs) -> i32 {
    if super::script::is_script(&args.plan) {
        if args.debug {
            eprintln!(
                "volley: --debug is for plans; `-i 1 --http-debug=full` does it for a script"
            );
            return exit::USAGE;
        }
        if args.target.is_some() {
            eprintln!("volley: --target is for plans; a script takes `-e NAME=VALUE`");
        }
        return super::script::run(args);
    }
    if let Some(flag) = args.script.first_given() {
        eprintln!("volley: {flag} is for scripts; a plan says this itself (docs/plans.md)");
        return exit::USAGE;
    }
    let mut plan = match read(&args.plan, &args.env, args.target.as_deref()) {
        Ok(plan) => plan,
        Err(problems) => {
            eprintln!("{problems}");
            return exit::INVALID;
        }
    };
    if let Err(problem) = apply_overrides(&mut plan, args) {
        eprintln!("volley: {problem}");
        return exit::INVALID;
    }
    let trace = args.debug.then(|| {
        make_debug(&mut plan);
        Arc::new(|text: String| print::line(&text)) as engine::Trace
    });
    run_plan(plan, &args.output, Style::Full, trace)
}

/// Reads a plan; `target` takes the place of its own.
pub fn read(
    path: &Path,
    env: &[(String, String)],
    target: Option<&str>,
) -> Result<Plan, plan::Problems> {
    let look_up = environment(env);
    let options = ReadOptions { target, ..ReadOptions::new(&look_up) };
    plan::read_file(path, &options).map_err(|problems| advise(path, problems))
}

/// `${env.NAME}`: what was given for it, or this process's own.
pub fn environment(given: &[(String, String)]) -> impl Fn(&str) -> Option<String> {
    move |name: &str| {
        let given = given.iter().rev().find(|(key, _)| key == name);
        given.map(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    }
}

/// What can be said about a file that is no plan at all.
pub fn advise(path: &Path, mut problems: plan::Problems) -> plan::Problems {
    let shown = path.display();
    let help = if !path.exists() {
        format!("`volley new {shown}` writes a plan to start from")
    } else if path.is_dir() {
        "a folder; name one of the plans in it".to_owned()
    } else {
        return problems;
    };
    if let Some(first) = problems.0.first_mut() {
        first.help.get_or_insert(help);
    }
    problems
}

fn apply_overrides(plan: &mut Plan, args: &RunArgs) -> Result<(), String> {
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
fn override_duration(executor: &mut Executor, wanted: std::time::Duration) -> bool {
    fn stretch<T>(stages: &mut [Stage<T>], wanted: std::time::Duration) {
        let total: std::time::Duration = stages.iter().map(|stage| stage.over).sum();
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

/// One iteration by one user, so that what is shown can be read.
fn make_debug(plan: &mut Plan) {
    for workflow in &mut plan.workflows {
        workflow.load.executor = Executor::PerVuIterations {
            vus: 1,
            iterations: 1,
            max_duration: std::time::Duration::from_secs(600),
        };
        workflow.load.start_after = std::time::Duration::ZERO;
        workflow.load.warmup = None;
        workflow.load.pacing = None;
    }
    // Thresholds speak of a load that there is not.
    plan.thresholds.clear();
}
