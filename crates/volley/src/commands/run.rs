//! `volley run PLAN`

use std::path::Path;
use std::sync::Arc;

use base::names::similar;
use plan::overrides::{LoadOverrides, OverrideError, to_one_iteration};
use plan::{Plan, ReadOptions, Stage};
use report::ExitCode;

use super::runner::{Style, run_plan, say_what_is_old, spare_inputs};
use super::stdin;
use crate::cli::{LoadArgs, RunArgs};
use crate::failure::Failure;
use crate::print;

pub fn run(args: &RunArgs) -> ExitCode {
    if let Some(problem) = no_file(&args.plan) {
        return Failure::usage(problem).tell();
    }
    let is_script = match stdin::is_meant(&args.plan) {
        true => stdin::is_script(),
        false => Ok(super::script::is_script(&args.plan)),
    };
    let is_script = match is_script {
        Ok(is_script) => is_script,
        Err(failure) => return failure.tell(),
    };
    if is_script {
        let code = run_script(args);
        if code == ExitCode::InvalidPlan {
            say_what_is_old(&args.output);
        }
        return code;
    }
    if let Some(flag) = args.script.first_given() {
        return Failure::usage(for_scripts(flag)).tell();
    }
    run_read(args)
}

/// What of a command is for plans only is said; the rest is the script's.
fn run_script(args: &RunArgs) -> ExitCode {
    let problem = if args.debug {
        "--debug is for plans; `-i 1 --http-debug=full` does it for a script"
    } else if args.load.target.is_some() {
        "--target is for plans; a script has its URLs itself. Read the address from the environment \
         there, `const BASE = __ENV.BASE;`, and give it with `-e BASE=http://HOST`"
    } else if args.rate.is_some() {
        "--rate is for plans; a script says it in a scenario (constant-arrival-rate)"
    } else {
        return super::script::run(args);
    };
    Failure::usage(problem).tell()
}

fn run_read(args: &RunArgs) -> ExitCode {
    warn_of_k6();
    let mut plan = match read(&args.plan, &args.env, args.load.target.as_deref()) {
        Ok(plan) => plan,
        Err(problems) => {
            eprintln!("{problems}");
            say_what_is_old(&args.output);
            return ExitCode::InvalidPlan;
        }
    };
    let load = LoadOverrides {
        iterations: args.script.iterations,
        stages: stages(&args.script.stages),
        ..overrides(&args.load, args.rate)
    };
    if let Err(failure) = change(&mut plan, &load) {
        return failure.tell();
    }
    plan.warnings.iter().for_each(|word| eprintln!("volley: {}", word.in_a_line()));
    if !args.debug {
        super::rows::short_of_rows(&plan).iter().for_each(|word| eprintln!("volley: {word}"));
    }
    let mut inputs = vec![(args.plan.clone(), "the plan itself".to_owned())];
    let named = plan.files.iter();
    inputs.extend(
        named.map(|(name, path)| (path.clone(), format!("`{name}`, which the plan reads"))),
    );
    let problems = spare_inputs(&args.output, &inputs);
    if !problems.is_empty() {
        problems.iter().for_each(|problem| eprintln!("volley: {problem}"));
        return ExitCode::InvalidPlan;
    }
    let trace = args.debug.then(|| {
        to_one_iteration(&mut plan);
        Arc::new(|text: String| print::line(&text)) as engine::Trace
    });
    run_plan(plan, Some(&args.plan), &args.output, Style::Full, trace)
}

/// The load that the flags ask for, in place of the plan's.
pub fn overrides(load: &LoadArgs, rate: Option<plan::Rate>) -> LoadOverrides {
    LoadOverrides {
        vus: load.vus,
        duration: load.duration,
        rate,
        iterations: None,
        stages: Vec::new(),
    }
}

fn stages(given: &[Vec<script::options::StageOptions>]) -> Vec<Stage<u32>> {
    let stage = |stage: &script::options::StageOptions| {
        let to = u32::try_from(stage.target.unwrap_or(0)).unwrap_or(u32::MAX);
        Stage { name: None, to, over: stage.duration.unwrap_or_default() }
    };
    given.iter().flatten().map(stage).collect()
}

/// Puts the load of the flags in the place of the plan's.
pub fn change(plan: &mut Plan, load: &LoadOverrides) -> Result<(), Failure> {
    load.apply(plan).map_err(|error| {
        let flag = match error {
            OverrideError::NoVus => "--vus",
            OverrideError::NoDuration | OverrideError::AllWarmup { .. } => "--duration",
        };
        Failure::invalid(error).at(flag)
    })
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
    let options = ReadOptions {
        target,
        key_fits: Some(&engine::key_fits),
        ca_reads: Some(&engine::ca_reads),
        is_here: Some(&is_here),
        ..ReadOptions::new(&look_up)
    };
    let mut plan = match stdin::is_meant(path) {
        false => {
            plan::read_file(path, &options).map_err(|problems| plan::advise(path, problems))?
        }
        true => {
            let text = stdin::bytes().map(String::from_utf8_lossy).unwrap_or_default();
            let mut plan = plan::read_named(&text, "standard input", Path::new("."), &options)?;
            if plan.name == "standard input" {
                plan.name = "stdin".to_owned();
            }
            plan
        }
    };
    plan.warnings.extend(asked.unread(path, env));
    Ok(plan)
}

/// Whether this machine can send from an address.
fn is_here(address: std::net::IpAddr) -> Result<(), String> {
    match std::net::UdpSocket::bind((address, 0)) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            Err(format!("{address} is not an address of this machine"))
        }
        _ => Ok(()),
    }
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
