//! `volley run PLAN`

use std::path::Path;
use std::sync::Arc;

use base::names::similar;
use plan::overrides::{LoadOverrides, OverrideError, to_one_iteration};
use plan::{Plan, ReadOptions, Stage};
use report::ExitCode;

use super::runner::{Style, run_plan};
use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::print;

pub fn run(args: &RunArgs) -> ExitCode {
    if let Some(problem) = no_file(&args.plan) {
        return Failure::usage(problem).tell();
    }
    if super::script::is_script(&args.plan) {
        if args.debug {
            let text = "--debug is for plans; `-i 1 --http-debug=full` does it for a script";
            return Failure::usage(text).tell();
        }
        if args.target.is_some() {
            let text = "--target is for plans; a script has its URLs itself. Read the address from the environment \
                        there, `const BASE = __ENV.BASE;`, and give it with `-e BASE=http://HOST`";
            return Failure::usage(text).tell();
        }
        if args.rate.is_some() {
            let text =
                "--rate is for plans; a script says it in a scenario (constant-arrival-rate)";
            return Failure::usage(text).tell();
        }
        return super::script::run(args);
    }
    if let Some(flag) = args.script.first_given() {
        return Failure::usage(for_scripts(flag)).tell();
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
    plan.warnings.iter().for_each(|word| eprintln!("volley: {}", word.in_a_line()));
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
    let asked = Asked::default();
    let look_up = asked.noting(environment(env));
    let key_fits = Some(&engine::key_fits as plan::KeyFits<'_>);
    let options = ReadOptions { target, key_fits, ..ReadOptions::new(&look_up) };
    let mut plan =
        plan::read_file(path, &options).map_err(|problems| plan::advise(path, problems))?;
    plan.warnings.extend(asked.unread(path, env));
    Ok(plan)
}

/// Which variables of the environment a plan reads.
#[derive(Default)]
pub struct Asked(std::cell::RefCell<std::collections::BTreeSet<String>>);

impl Asked {
    pub fn noting(
        &self,
        look_up: impl Fn(&str) -> Option<String>,
    ) -> impl Fn(&str) -> Option<String> {
        move |name: &str| {
            self.0.borrow_mut().insert(name.to_owned());
            look_up(name)
        }
    }

    /// `-e region=us` for a plan that reads `REGION`.
    pub fn unread(&self, path: &Path, given: &[(String, String)]) -> Vec<plan::Problem> {
        let asked = self.0.borrow();
        let unread = given.iter().filter(|(name, _)| !asked.contains(name));
        let word = |(name, _): &(String, String)| {
            let help = match similar(name, asked.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `-e {near}=...`?"),
                None if asked.is_empty() => {
                    format!("`${{env.{name}}}` reads it in a plan")
                }
                None => {
                    let known: Vec<&str> = asked.iter().take(20).map(String::as_str).collect();
                    format!("it reads {}", known.join(", "))
                }
            };
            let message = format!("`-e {name}` has no effect: the plan does not read it");
            plan::Problem {
                file: path.to_owned(),
                message,
                help: Some(help),
                ..plan::Problem::default()
            }
        };
        unread.map(word).collect()
    }
}

/// A URL where a file belongs.
fn no_file(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let is_url = ["http://", "https://", "unix:/"].iter().any(|scheme| text.starts_with(scheme));
    if !is_url {
        return None;
    }
    let text = plan::mask_broken_url(text);
    Some(match super::script::is_script(path) {
        true => format!(
            "`{text}` is a URL, and scripts are not fetched: `curl -O {text}`, then `volley run` with the file"
        ),
        false => format!(
            "`{text}` is a URL, and `run` takes a plan or a script; `volley {text}` loads it without a file"
        ),
    })
}

/// What a plan has in the place of a script's flag.
pub fn for_scripts(flag: &str) -> String {
    let instead = match flag {
        "--config" => {
            return "--config is for scripts (`-c` is short for it); virtual users of a plan are `--vus N`".into();
        }
        "--tag" => "`tags: { NAME: VALUE }` in the plan",
        "--user-agent" => "`defaults: { headers: { user-agent: NAME } }` in the plan",
        "--insecure-skip-tls-verify" => "`defaults: { tls: { insecure: true } }` in the plan",
        "--no-connection-reuse" | "--no-vu-connection-reuse" => {
            "`defaults: { keep_alive: false }` in the plan"
        }
        "--max-redirects" => "`defaults: { redirects: N }` in the plan",
        "--rps" => "`--rate N/s`, or `load: { rate: N/s, ... }` in the plan",
        "--http-debug" => "`--debug`, which shows one iteration with all requests and answers",
        "--no-thresholds" => "nothing: take `thresholds` out of the plan, or a part of them",
        "--no-setup" | "--no-teardown" => "nothing: take `setup` or `teardown` out of the plan",
        "--summary-export" => "`--summary FILE.json`",
        "--no-summary" => "`-q`, which prints the verdict alone",
        "--discard-response-bodies" => "nothing: bodies are only kept where a step looks at them",
        "--blacklist-ip" | "--block-hostnames" => "nothing: a plan goes where its URLs say",
        "--strict" => "nothing: failed checks and requests count in a plan (`--fail-on`)",
        _ => "what the plan says itself (docs/plans.md)",
    };
    format!("{flag} is for scripts; for a plan it is {instead}")
}

/// `${env.NAME}`: what was given for it, or this process's own.
pub fn environment(given: &[(String, String)]) -> impl Fn(&str) -> Option<String> {
    move |name: &str| {
        let given = given.iter().rev().find(|(key, _)| key == name);
        given.map(|(_, value)| value.clone()).or_else(|| std::env::var(name).ok())
    }
}
