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
    warn_of_k6();
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
    if let Some((what, instead)) = foreign(path).filter(|_| path.is_file()) {
        let message = format!("{what}, which Volley does not run");
        let first = problems.0.first().map(|first| first.file.clone());
        let file = first.unwrap_or_else(|| path.to_owned());
        let help = Some(format!("{instead}; docs/coming-from.md says what becomes of its parts"));
        let about_all = plan::Problem { file, message, help, ..plan::Problem::default() };
        return plan::Problems(vec![about_all]);
    }
    let help = if !path.exists() {
        match neighbour(path) {
            Some(near) => format!("did you mean `{}`?", near.display()),
            None => format!("`volley new {shown}` writes a plan to start from"),
        }
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

/// Files of other tools, which are neither plan nor script.
fn foreign(path: &Path) -> Option<(&'static str, &'static str)> {
    let new = "`volley new plan.yaml` writes a plan to start from";
    Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "jmx" => ("this is a JMeter test plan", new),
        "py" => ("this is Python, as Locust's files are", new),
        "scala" | "java" | "kt" => ("this is a program, as Gatling's simulations are", new),
        "lua" => (
            "this is Lua, as wrk's scripts are",
            "`volley new script.js --template k6` writes a script",
        ),
        "har" => ("this is a recording of a browser (HAR)", new),
        "xml" | "html" | "htm" => ("this is XML or HTML", new),
        "csv" | "tsv" => {
            ("this is a data file", "name it in a plan: `data: { users: { file: users.csv } }`")
        }
        _ => return None,
    })
}

/// The file beside it whose name is nearly the same.
fn neighbour(path: &Path) -> Option<std::path::PathBuf> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names =
        entries.flatten().take(1_000).filter_map(|entry| entry.file_name().into_string().ok());
    let endings = [".yaml", ".yml", ".toml", ".json", ".js", ".ts"];
    let plans = names.filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    let distance = |name: &String| strsim::damerau_levenshtein(wanted, name);
    let nearest = plans.min_by_key(distance).filter(|name| distance(name) <= 2)?;
    Some(path.with_file_name(nearest))
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
