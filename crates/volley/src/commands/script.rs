//! `volley run script.js`: from a k6 script to k6's summary and exit code.

mod hints;
mod log;
mod outputs;
mod remote;
mod repeats;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::script::{RunOverrides, ScriptRun};
use engine::{Conductor, Control, RunOptions};
use report::k6::{Results, SummaryMode, SummaryOptions};
use script::heap::Budget;
use script::inspect::inspect;
use script::log::Level;
use script::options::{self, Options, Place};
use script::program::Script;
use script::source::Sources;
use script::thrown::ThrownKind;
use script::vu::Description;
use stats::series::builtin;
use stats::{RunResult, StopReason};

use self::log::Log;
pub use self::remote::{Prepared, prepare_for_cluster, tell_plainly};
use super::runner;
use crate::cli::RunArgs;
use crate::{exit, print, signals};

/// No single virtual user may use more.
const SCRIPT_BYTES_MAX: usize = 512 << 20;

/// Scripts are told from plans by their ending.
pub fn is_script(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    matches!(ending.to_ascii_lowercase().as_str(), "js" | "ts" | "mjs" | "cjs" | "mts" | "cts")
        || path.as_os_str() == "-"
}

/// Why a run ended before it began: an exit code, and it has been said.
struct Refused(i32);

pub fn run(args: &RunArgs) -> i32 {
    let args = &RunArgs { script: args.script.with_environment(), ..args.clone() };
    let script_args = &args.script;
    let console = script_args.console_output.as_deref();
    let opened = Log::open(
        script_args.log_output.as_deref().unwrap_or("stderr"),
        script_args.log_format.as_deref().unwrap_or("text"),
        console,
        script_args.verbose,
    );
    let log = match opened {
        Ok(log) => log,
        Err(problem) => {
            eprintln!("volley: {problem}");
            return exit::INVALID;
        }
    };
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    for note in script_args.k6_only.notes(&var) {
        log.say(Level::Warning, note);
    }
    match prepare(args, &log) {
        Ok(ready) => ready.run(args, &log),
        Err(Refused(code)) => code,
    }
}

/// `volley plan script.js`: what would run, without running it.
pub fn explain(path: &Path, env: &[(String, String)]) -> i32 {
    let args = RunArgs { plan: path.to_owned(), env: env.to_vec(), ..RunArgs::default() };
    let log = match Log::open("stderr", "text", None, false) {
        Ok(log) => log,
        Err(problem) => {
            eprintln!("volley: {problem}");
            return exit::INVALID;
        }
    };
    match prepare(&args, &log) {
        Ok(ready) => {
            ready.introduction.iter().for_each(|line| print::line(line));
            for threshold in ready.run.layout.thresholds() {
                let target = stats::series::Target { metric: threshold.metric, sub: threshold.sub };
                let key = ready.run.layout.key(target);
                print::line(&format!("* threshold: {key} {}", threshold.spec.text));
            }
            0
        }
        Err(Refused(code)) => code,
    }
}

/// A script that is ready to run.
struct Ready {
    run: ScriptRun,
    description: Description,
    options: Options,
    /// All levels of options, before what follows from them.
    merged: Options,
    mode: Option<SummaryMode>,
    introduction: Vec<String>,
}

fn prepare(args: &RunArgs, log: &Arc<Log>) -> Result<Ready, Refused> {
    let refuse = |code: i32, message: String| {
        log.refuse(message);
        Refused(code)
    };
    let mode = summary_mode(args).map_err(|problem| refuse(exit::INVALID, problem))?;
    let sources = read(&args.plan).map_err(|error| refuse(exit::FAILED_TO_START, error))?;
    if let Err(error) = sources.module(sources.entry()) {
        return Err(refuse(exit::EXCEPTION, error.to_string()));
    }
    let found = sources.look().map_err(|error| refuse(exit::EXCEPTION, error.to_string()))?;
    for warning in found {
        log.say(Level::Warning, warning);
    }
    let env = environment(args);
    let all = engine::machine::memory_available_bytes() / 10 * 6;
    let budget = Budget::new(all.max(256 << 20), SCRIPT_BYTES_MAX);
    let script = Arc::new(Script::new(sources, env.clone(), budget));
    let description = inspect(&script, &log.logger()).map_err(|thrown| match thrown.kind {
        ThrownKind::Abort => refuse(exit::ABORTED, thrown.message),
        _ => refuse(exit::EXCEPTION, thrown.full()),
    })?;
    let merged = merge(args, &description, &env, log)?;
    let (resolved, warnings) = options::resolve(merged.clone())
        .map_err(|error| refuse(exit::INVALID, error.to_string()))?;
    for warning in warnings {
        log.say(Level::Warning, warning.to_string());
    }
    let certificates = resolved.options.tls_auth.as_deref().unwrap_or_default();
    if certificates.len() > 1 || certificates.iter().any(|one| !one.domains.is_empty()) {
        let text = "tlsAuth: the first certificate is shown to every host that asks for one; \
                    `domains` and further certificates are not used";
        log.say(Level::Warning, text);
    }
    let wishes = RunOverrides {
        name: args.plan.display().to_string(),
        logger: log.logger(),
        sections: mode == Some(SummaryMode::Full),
        no_thresholds: args.script.no_thresholds,
        strict: args.script.strict,
    };
    let run = ScriptRun::assemble(script, &description, &resolved, wishes);
    let run = run.map_err(|error| {
        let code = match error {
            engine::script::AssembleError::NoFunctions => exit::FAILED_TO_START,
            _ => exit::INVALID,
        };
        refuse(code, error.to_string())
    })?;
    for warning in hints::before(&run, &description) {
        log.say(Level::Warning, warning);
    }
    let introduction = options::describe(&resolved);
    Ok(Ready { run, description, options: resolved.options, merged, mode, introduction })
}

fn read(path: &Path) -> Result<Sources, String> {
    let builtins = script::modules::builtins();
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        let read = std::io::stdin().read_to_end(&mut text);
        read.map_err(|error| format!("standard input: {error}"))?;
        let folder = std::env::current_dir().map_err(|error| error.to_string())?;
        return Sources::from_stdin(text, &folder, builtins).map_err(|error| error.to_string());
    }
    Sources::open(path, builtins).map_err(|error| error.to_string())
}

fn summary_mode(args: &RunArgs) -> Result<Option<SummaryMode>, String> {
    match args.script.summary_mode.as_deref() {
        _ if args.script.no_summary => Ok(None),
        Some("disabled") => Ok(None),
        Some(mode) => mode
            .parse()
            .map(Some)
            .map_err(|problem| format!("--summary-mode: {problem}, or disabled")),
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

/// Defaults < config file < script < environment < flags.
fn merge(
    args: &RunArgs,
    description: &Description,
    env: &BTreeMap<String, String>,
    log: &Log,
) -> Result<Options, Refused> {
    let refuse = |message: String| {
        log.refuse(message);
        Refused(exit::INVALID)
    };
    let parse = |text: &str, place: Place| {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| refuse(format!("{place}: not JSON: {error}")))?;
        let (options, warnings) =
            Options::from_json(&value, place).map_err(|error| refuse(error.to_string()))?;
        for warning in warnings {
            log.say(Level::Warning, warning.to_string());
        }
        Ok(options)
    };
    let config = match &args.script.config {
        Some(path) => {
            let shown = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| refuse(format!("config file {shown}: {error}")))?;
            parse(&text, Place::ConfigFile(shown))?
        }
        None => Options::default(),
    };
    let script = match &description.options {
        Some(json) => parse(json, Place::Script)?,
        None => Options::default(),
    };
    // Options are read from this machine's environment, whatever of it the script may see.
    let mut known = strings(std::env::vars_os());
    known.extend(env.clone());
    let environment = Options::from_env(&known).map_err(|error| refuse(error.to_string()))?;
    let flags = args.script.options(args.vus, args.duration).map_err(refuse)?;
    Ok(Options::merge([config, script, environment, flags]))
}

impl Ready {
    fn run(self, args: &RunArgs, log: &Arc<Log>) -> i32 {
        let Ready { mut run, description, options, mode, introduction, .. } = self;
        let output = &match outputs::with_environment(&args.output) {
            Ok(output) => output,
            Err(problem) => {
                log.say(Level::Error, problem);
                return exit::INVALID;
            }
        };
        if let Some(path) = &args.script.summary_export
            && let Err(error) = report::outputs::check_writable(path)
        {
            log.say(Level::Error, format!("--summary-export {}: {error}", path.display()));
            return exit::INVALID;
        }
        if let Err(problems) = runner::check_outputs(output) {
            problems.into_iter().for_each(|problem| log.say(Level::Error, problem));
            return exit::INVALID;
        }
        let writer = match outputs::start(&output.output, &run.layout, &options) {
            Ok(writer) => writer,
            Err(problems) => {
                problems.into_iter().for_each(|problem| log.say(Level::Error, problem));
                return exit::INVALID;
            }
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
        let (conductor, controller) = match Conductor::for_script(run.clone(), run_options) {
            Ok(ready) => ready,
            Err(error) => {
                log.say(Level::Error, error.to_string());
                return exit::INVALID;
            }
        };
        let interrupt = controller.clone();
        signals::on_interrupt(move || interrupt.send(Control::Interrupt));
        let mode_of_view = runner::view_mode(output, false);
        let words = log.words.clone();
        let result = runner::lead(conductor, &controller, output, mode_of_view, words);
        log.release();
        let mut result = match result {
            Ok(result) => result,
            Err(error) => {
                log.say(Level::Error, error.to_string());
                return exit::EXCEPTION;
            }
        };
        if let Some(writer) = writer {
            writer.finish().notes.into_iter().for_each(|note| log.say(Level::Warning, note));
        }
        result.fail_on = output.fail_on.unwrap_or(result.fail_on);
        for note in report::outputs::write_results(&output.output, &result) {
            log.say(Level::Warning, note);
        }
        tell(args, log, &run, &description, &options, mode, &result, Told::here())
    }
}

/// Words for people.
fn put(text: &str, on_stderr: bool) {
    match on_stderr {
        true => eprint!("{}", print::shown(text)),
        false => print::page(text),
    }
}

/// Where a run was, for whoever tells of it.
#[derive(Clone, Copy)]
struct Told {
    on_stderr: bool,
    /// The log of the run was seen here while it was written.
    saw_log: bool,
}

impl Told {
    fn here() -> Told {
        Told { on_stderr: false, saw_log: true }
    }
}

/// Summary on the terminal and in files, `handleSummary`, exit code.
#[allow(clippy::too_many_arguments, reason = "what a summary is made of")]
fn tell(
    args: &RunArgs,
    log: &Arc<Log>,
    run: &ScriptRun,
    description: &Description,
    options: &Options,
    mode: Option<SummaryMode>,
    result: &RunResult,
    how: Told,
) -> i32 {
    let Some(script) = &result.script else { return exit::FAILED };
    let summary_options = SummaryOptions {
        trend_stats: outputs::trend_stats(options),
        time_unit: outputs::time_unit(options),
        no_color: args.output.no_color || !dashboard::wants_color(false, true),
        stdout_is_terminal: std::io::stdout().is_terminal(),
        stderr_is_terminal: std::io::stderr().is_terminal(),
    };
    let results = Results {
        layout: &script.layout,
        total: &script.totals,
        outcomes: &script.thresholds,
        duration: result.elapsed,
        options: &summary_options,
    };
    if let Some(path) = &args.script.summary_export
        && mode.is_some()
        && let Err(error) = std::fs::write(path, results.export())
    {
        log.say(Level::Error, format!("summary export {}: {error}", path.display()));
    }
    if let Some(path) = &args.output.summary
        && let Err(error) = report::Summary::new(result).write(path)
    {
        log.say(Level::Error, format!("summary {}: {error}", path.display()));
    }
    let never_began = never_began(result);
    let mut own_summary = false;
    let summarizes = description.functions.iter().any(|name| name == "handleSummary");
    if summarizes && mode.is_some() && !never_began {
        let timeout = options.handle_summary_timeout.unwrap_or(Duration::from_secs(120));
        let http = &run.plan.http;
        let mut data = results.data();
        if let Some(object) = data.as_object_mut() {
            let json = script.setup_data.as_deref().unwrap_or("null");
            let value = serde_json::from_str(json).unwrap_or_default();
            object.insert("setup_data".to_owned(), value);
        }
        let data = data.to_string();
        let logger = log.logger();
        let files =
            engine::script::handle_summary(&run.script, &run.layout, http, &logger, &data, timeout);
        match files {
            Ok(Some(files)) => {
                outputs::write_files(&files, log);
                own_summary = true;
            }
            Ok(None) => {}
            Err(thrown) => log.say(Level::Error, thrown.full()),
        }
    }
    if let Some(mode) = mode
        && !own_summary
        && !never_began
    {
        put(&results.text(mode), how.on_stderr || args.output.data_on_stdout());
    }
    let iterations = script.totals.sink(builtin::ITERATIONS).map_or(0, |sink| sink.samples());
    if iterations == 0 && script.failure.is_none() && !never_began {
        let text = "No script iterations fully finished, consider making the test duration longer";
        log.say(Level::Warning, text);
    }
    if !never_began {
        let iterations_known = if how.saw_log { Some(iterations) } else { None };
        for warning in hints::after(run, script, iterations_known) {
            log.say(Level::Warning, warning);
        }
    }
    let exit = report::exit_code(result);
    // What ended the test early has been said when it happened.
    let told = script.failure.is_some() || matches!(result.stop, StopReason::Threshold(_));
    let told = told && how.saw_log;
    if !exit.passed() && !told {
        log.say(Level::Error, exit.reason);
    }
    exit.code
}

/// All scenarios failed before they began. A summary would tick thresholds on which nothing was measured; `volley run`
/// has none then either.
fn never_began(result: &RunResult) -> bool {
    let failed = |workflow: &stats::WorkflowResult| {
        matches!(workflow.status, stats::WorkflowStatus::Failed { .. })
    };
    !result.workflows.is_empty() && result.workflows.iter().all(failed)
}
