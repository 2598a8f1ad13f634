//! `volley run PLAN`

use std::path::Path;
use std::sync::Arc;

use plan::overrides::{LoadOverrides, OverrideError, to_one_iteration};
use plan::{Plan, ReadOptions, Stage};
use report::ExitCode;

use super::runner::{Style, run_plan};
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::print;

pub fn run(args: &RunArgs) -> ExitCode {
    if super::script::is_script(&args.plan) {
        if args.debug {
            let text = "--debug is for plans; `-i 1 --http-debug=full` does it for a script";
            return Failure::usage(text).tell();
        }
        if args.target.is_some() {
            eprintln!("volley: --target is for plans; a script takes `-e NAME=VALUE`");
        }
        if args.rate.is_some() {
            let text =
                "--rate is for plans; a script says it in a scenario (constant-arrival-rate)";
            return Failure::usage(text).tell();
        }
        return super::script::run(args);
    }
    if let Some(flag) = args.script.first_given() {
        let text = format!("{flag} is for scripts; a plan says this itself (docs/plans.md)");
        return Failure::usage(text).tell();
    }
    warn_of_k6();
    let mut plan = match read(&args.plan, &args.env, args.target.as_deref()) {
        Ok(plan) => plan,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::InvalidPlan;
        }
    };
    if let Err(error) = overrides(args).apply(&mut plan) {
        let flag = match error {
            OverrideError::NoVus => "--vus",
            OverrideError::NoDuration => "--duration",
        };
        return Failure::invalid(error).at(flag).tell();
    }
    if !args.debug {
        super::rows::short_of_rows(&plan).iter().for_each(|word| eprintln!("volley: {word}"));
    }
    let trace = args.debug.then(|| {
        to_one_iteration(&mut plan);
        Arc::new(|text: String| print::line(&text)) as engine::Trace
    });
    run_plan(plan, &args.output, Style::Full, trace)
}

/// The load that the flags ask for, in place of the plan's.
fn overrides(args: &RunArgs) -> LoadOverrides {
    let stage = |stage: &script::options::StageOptions| {
        let to = u32::try_from(stage.target.unwrap_or(0)).unwrap_or(u32::MAX);
        Stage { name: None, to, over: stage.duration.unwrap_or_default() }
    };
    LoadOverrides {
        vus: args.vus,
        duration: args.duration,
        rate: args.rate,
        iterations: args.script.iterations,
        stages: args.script.stages.iter().flatten().map(stage).collect(),
    }
}

/// What k6 reads from the environment says nothing to a plan.
fn warn_of_k6() {
    let known = ["VUS", "DURATION", "ITERATIONS"];
    for name in known.iter().filter(|name| std::env::var_os(format!("K6_{name}")).is_some()) {
        eprintln!(
            "volley: K6_{name} is for scripts; for a plan it is VOLLEY_{name}, or --{}",
            name.to_lowercase()
        );
    }
}

/// Reads a plan; `target` takes the place of its own.
pub fn read(
    path: &Path,
    env: &[(String, String)],
    target: Option<&str>,
) -> Result<Plan, plan::Problems> {
    let look_up = environment(env);
    let key_fits = Some(&engine::key_fits as plan::KeyFits<'_>);
    let options = ReadOptions { target, key_fits, ..ReadOptions::new(&look_up) };
    plan::read_file(path, &options).map_err(|problems| plan::advise(path, problems))
}

/// `${env.NAME}`: what was given for it, or this process's own.
pub fn environment(given: &[(String, String)]) -> impl Fn(&str) -> Option<String> {
    move |name: &str| {
        let given = given.iter().rev().find(|(key, _)| key == name);
        given.map(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    }
}
