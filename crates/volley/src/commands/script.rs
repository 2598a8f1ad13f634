//! `volley run script.js`: from a k6 script to k6's summary and exit code.
//!
//! How a script is read, inspected and compiled is `engine::script::prepare`'s; here are the log
//! that it is told in, the files that are written, and what becomes of arguments.

mod log;
mod outputs;
mod remote;
mod repeats;
mod tell;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use engine::script::{AssembleError, Entry, How, PrepareError, Prepared, Wanted};
use engine::{Conductor, Control, RunOptions};
use report::k6::SummaryMode;
use report::{About, ExitCode};
use script::log::Level;
use script::thrown::ThrownKind;

use self::log::Log;
use self::tell::Teller;
use super::page::{self, Page};
use super::report as keep;
use super::runner;
use crate::cli::{OutputArgs, RunArgs, ScriptArgs};
use crate::failure::Failure;
use crate::{print, signals};

pub use self::remote::{Remote, prepare_for_cluster};
pub use self::tell::tell_plainly;
pub use script::source::is_script;

/// A script that is ready, and how much its summary will say.
type Ready = (Prepared, Option<SummaryMode>);

pub fn run(args: &RunArgs) -> ExitCode {
    let args = &RunArgs { script: args.script.with_environment(), ..args.clone() };
    let log = match Log::of_arguments(&args.script) {
        Ok(log) => log,
        Err(failure) => return failure.tell(),
    };
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    for note in args.script.k6_only.notes(&var) {
        log.say(Level::Warning, note);
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, near) in script::options::misspelt(names) {
        log.say(Level::Warning, format!("there is no {name} in k6; did you mean {near}?"));
    }
    match prepare(args, &log) {
        Ok(ready) => lead(ready, args, &log),
        Err(exit) => exit,
    }
}

/// `volley plan script.js`: what would run, without running it.
pub fn explain(path: &Path, env: &[(String, String)]) -> ExitCode {
    let args = RunArgs { plan: path.to_owned(), env: env.to_vec(), ..RunArgs::default() };
    let log = match Log::of_arguments(&ScriptArgs::default()) {
        Ok(log) => log,
        Err(failure) => return failure.tell(),
    };
    let prepared = match prepare(&args, &log) {
        Ok((prepared, _)) => prepared,
        Err(exit) => return exit,
    };
    prepared.introduction.iter().for_each(|line| print::line(line));
    let layout = &prepared.run.layout;
    for threshold in layout.thresholds() {
        let target = stats::series::Target { metric: threshold.metric, sub: threshold.sub };
        print::line(&format!("* threshold: {} {}", layout.key(target), threshold.spec.text));
    }
    ExitCode::Passed
}

/// Makes a script ready. The exit code if that is not possible; the log has said why.
fn prepare(args: &RunArgs, log: &Arc<Log>) -> Result<Ready, ExitCode> {
    let refuse = |failure: Failure| {
        log.refuse(failure.to_string());
        failure.exit
    };
    let mode = summary_mode(&args.script).map_err(refuse)?;
    let wanted = wanted(args, mode, log).map_err(refuse)?;
    let prepared = engine::script::prepare(wanted);
    Ok((prepared.map_err(|error| refuse(failure_of(&error)))?, mode))
}

/// What went wrong, with k6's code for it.
fn failure_of(error: &PrepareError) -> Failure {
    let exit = match error {
        PrepareError::Unreadable(_) | PrepareError::Assemble(AssembleError::NoFunctions) => {
            ExitCode::NotStarted
        }
        PrepareError::Source(_) => ExitCode::Exception,
        PrepareError::Thrown(thrown) => match thrown.kind {
            ThrownKind::Abort => ExitCode::Aborted,
            _ => ExitCode::Exception,
        },
        PrepareError::Config { .. }
        | PrepareError::NotJson { .. }
        | PrepareError::Options(_)
        | PrepareError::Assemble(_) => ExitCode::InvalidPlan,
    };
    Failure::new(exit, error)
}

/// The arguments, as a script's preparation takes them.
fn wanted(args: &RunArgs, mode: Option<SummaryMode>, log: &Arc<Log>) -> Result<Wanted, Failure> {
    let env = environment(args);
    // Options are read from this machine's environment, whatever of it the script may see.
    let mut variables = strings(std::env::vars_os());
    variables.extend(env.clone());
    let flags = args.script.options(args.load.vus, args.load.duration).map_err(Failure::invalid)?;
    Ok(Wanted {
        name: args.plan.display().to_string(),
        entry: entry(&args.plan)?,
        env,
        given: args.env.clone(),
        variables,
        config: args.script.config.clone(),
        flags,
        how: How {
            sections: mode == Some(SummaryMode::Full),
            no_thresholds: args.script.no_thresholds,
            strict: args.script.strict,
        },
        logger: log.logger(),
    })
}

fn entry(path: &Path) -> Result<Entry, Failure> {
    if path.as_os_str() != "-" {
        return Ok(Entry::File(path.to_owned()));
    }
    let fail = |error: std::io::Error| Failure::new(ExitCode::NotStarted, error);
    let text = super::stdin::bytes()?.to_vec();
    let folder = std::env::current_dir().map_err(fail)?;
    Ok(Entry::Text { text, folder })
}

fn summary_mode(args: &ScriptArgs) -> Result<Option<SummaryMode>, Failure> {
    match args.summary_mode.as_deref() {
        _ if args.no_summary => Ok(None),
        Some("disabled") => Ok(None),
        Some(mode) => mode
            .parse()
            .map(Some)
            .map_err(|problem| Failure::invalid(format!("--summary-mode: {problem}, or disabled"))),
        None => Ok(Some(SummaryMode::default())),
    }
}

/// What scripts see as `__ENV`.
fn environment(args: &RunArgs) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    if args.script.include_system_env_vars != Some(false) {
        env.extend(strings(std::env::vars_os()));
    }
    env.extend(args.env.iter().cloned());
    env
}

fn strings(vars: std::env::VarsOs) -> BTreeMap<String, String> {
    let text = |(key, value): (OsString, OsString)| {
        Some((key.into_string().ok()?, value.into_string().ok()?))
    };
    vars.filter_map(text).collect()
}

/// What is wrong with the files that are to be written.
fn check_files(output: &OutputArgs, args: &RunArgs) -> Vec<String> {
    let mut inputs = vec![(args.plan.clone(), "the script itself".to_owned())];
    inputs.extend(args.script.config.clone().map(|file| (file, "the file of --config".to_owned())));
    let mut problems = runner::spare_inputs(output, &inputs);
    if let Some(path) = &args.script.summary_export {
        problems.extend(runner::spare_input(path, "--summary-export", &inputs));
    }
    problems.extend(runner::check_outputs(output).err().unwrap_or_default());
    problems
}

fn about(args: &RunArgs, plan: &plan::Plan) -> About {
    let schedule = Some(super::explain::schedule_json(plan));
    About { schedule, ..keep::about(Some(&args.plan), None) }
}

/// Runs a script that is ready, and tells what came of it.
fn lead((prepared, mode): Ready, args: &RunArgs, log: &Arc<Log>) -> ExitCode {
    let Prepared { mut run, description, options, introduction, .. } = prepared;
    let refuse = |problems: Vec<String>| {
        problems.into_iter().for_each(|problem| log.say(Level::Error, problem));
        ExitCode::InvalidPlan
    };
    let output = match outputs::with_environment(&args.output) {
        Ok(output) => output,
        Err(failure) => return refuse(vec![failure.to_string()]),
    };
    if let Some(failure) = outputs::check_export(&args.script) {
        return refuse(vec![failure.to_string()]);
    }
    let problems = check_files(&output, args);
    if !problems.is_empty() {
        return refuse(problems);
    }
    let writer = match outputs::start(&output.output, &run.layout, &options) {
        Ok(writer) => writer,
        Err(problems) => return refuse(problems),
    };
    run.sink = writer.as_ref().map(|writer| writer.sink());
    if !output.quiet {
        introduction.iter().for_each(|line| eprintln!("{line}"));
    }
    let run = Arc::new(run);
    let run_options = RunOptions {
        cores: output.cores_here(),
        paused: options.paused.unwrap_or(false),
        ..RunOptions::default()
    };
    let (mut conductor, controller) = match Conductor::for_script(run.clone(), run_options) {
        Ok(ready) => ready,
        Err(error) => return refuse(vec![error.to_string()]),
    };
    let about = about(args, &run.plan);
    let page = match Page::open(&output.web, &about, &mut conductor, &controller) {
        Ok(page) => page,
        Err(failure) => return refuse(vec![failure.to_string()]),
    };
    let interrupt = controller.clone();
    signals::on_interrupt_or_hangup(move || interrupt.send(Control::Interrupt));
    let mode_of_view = runner::view_mode(&output, false);
    let result = runner::lead(conductor, &controller, &output, mode_of_view, log.words.clone());
    log.release();
    let mut result = match result {
        Ok(result) => result,
        Err(error) => {
            log.say(Level::Error, error.to_string());
            return ExitCode::Exception;
        }
    };
    result.fail_on = output.fail_on.unwrap_or(result.fail_on);
    let samples = writer.map(|writer| writer.finish());
    let files = report::outputs::write_results(&output.output, &result);
    for note in samples.into_iter().chain([files]).flat_map(runner::notes_of) {
        log.say(Level::Warning, note);
    }
    page::leave(&result, &output, &about, page.as_ref());
    let (run, description, options) = (&*run, &description, &options);
    let teller = Teller { args, log, run, description, options, mode };
    let code = teller.tell(&result, tell::Seen::Here);
    page::hint(&output);
    if let Some(page) = page {
        page.close();
    }
    code
}
