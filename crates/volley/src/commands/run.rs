//! `volley run PLAN`

use std::path::Path;
use std::sync::Arc;

use plan::{Executor, Plan, ReadOptions};

use super::overrides;
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
        if args.rate.is_some() {
            eprintln!(
                "volley: --rate is for plans; a script says it in a scenario (constant-arrival-rate)"
            );
            return exit::USAGE;
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
    if let Err(problem) = overrides::apply(&mut plan, args) {
        eprintln!("volley: {problem}");
        return exit::INVALID;
    }
    if !args.debug {
        super::rows::short_of_rows(&plan).iter().for_each(|word| eprintln!("volley: {word}"));
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
    let key_fits = Some(&engine::key_fits as plan::KeyFits<'_>);
    let options = ReadOptions { target, key_fits, ..ReadOptions::new(&look_up) };
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
