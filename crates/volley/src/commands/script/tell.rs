//! What is told of a script's run when it is over: k6's summary, `handleSummary`, files, and the
//! exit code.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use engine::script::{ScriptRun, hints};
use report::ExitCode;
use report::k6::{Results, SummaryMode, SummaryOptions};
use script::log::Level;
use script::options::Options;
use script::vu::Description;
use stats::series::builtin;
use stats::{RunResult, ScriptResult, StopReason};

use super::log::Log;
use super::outputs;
use crate::cli::{OutputArgs, RunArgs};
use crate::{commands, print};

/// Where a run was, for whoever tells of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// On this machine: its log was seen while it was written.
    Here,
    /// On a cluster.
    Elsewhere { on_stderr: bool },
}

/// What a summary is made of, beside the result.
pub struct Teller<'a> {
    pub args: &'a RunArgs,
    pub log: &'a Arc<Log>,
    pub run: &'a ScriptRun,
    pub description: &'a Description,
    pub options: &'a Options,
    /// `None`: no summary is wanted.
    pub mode: Option<SummaryMode>,
}

impl Teller<'_> {
    /// Summary on the terminal and in files, `handleSummary`, exit code.
    pub fn tell(&self, result: &RunResult, seen: Seen) -> ExitCode {
        let Some(script) = &result.script else { return ExitCode::Failed };
        let summary_options = summary_options(self.options, &self.args.output);
        let results = results(result, script, &summary_options);
        self.write(&results, result);
        if !never_began(result) {
            let own_summary = self.handle_summary(&results, script);
            if let Some(mode) = self.mode.filter(|_| !own_summary) {
                let on_stderr = seen == Seen::Elsewhere { on_stderr: true };
                put(&results.text(mode), on_stderr || self.args.output.data_on_stdout());
            }
            self.warn(script, seen);
        }
        let exit = report::exit_code(result);
        // What ended the test early has been said when it happened.
        let told = script.failure.is_some() || matches!(result.stop, StopReason::Threshold(_));
        let said = told && seen == Seen::Here;
        if !exit.passed() && !said {
            self.log.say(Level::Error, exit.reason);
        }
        exit.code
    }

    fn write(&self, results: &Results<'_>, result: &RunResult) {
        if let Some(path) = &self.args.script.summary_export
            && self.mode.is_some()
            && let Err(error) = std::fs::write(path, results.export())
        {
            self.log.say(Level::Error, format!("summary export {}: {error}", path.display()));
        }
        if let Some(path) = &self.args.output.summary
            && let Err(error) = report::Summary::new(result).write(path)
        {
            self.log.say(Level::Error, format!("summary {}: {error}", path.display()));
        }
    }

    /// Lets the script make its own summary. Whether it did.
    fn handle_summary(&self, results: &Results<'_>, script: &ScriptResult) -> bool {
        let summarizes = self.description.functions.iter().any(|name| name == "handleSummary");
        if !summarizes || self.mode.is_none() {
            return false;
        }
        let mut data = results.data();
        if let Some(object) = data.as_object_mut() {
            let json = script.setup_data.as_deref().unwrap_or("null");
            let value = serde_json::from_str(json).unwrap_or_default();
            object.insert("setup_data".to_owned(), value);
        }
        let timeout = self.options.handle_summary_timeout.unwrap_or(Duration::from_secs(120));
        let (run, logger) = (self.run, self.log.logger());
        let (http, data) = (&run.plan.http, data.to_string());
        let files =
            engine::script::handle_summary(&run.script, &run.layout, http, &logger, &data, timeout);
        match files {
            Ok(Some(files)) => outputs::write_files(&files, self.log),
            Ok(None) => return false,
            Err(thrown) => {
                self.log.say(Level::Error, thrown.full());
                return false;
            }
        }
        true
    }

    /// What went as the script says, and surely not as its author meant.
    fn warn(&self, script: &ScriptResult, seen: Seen) {
        let iterations = script.totals.sink(builtin::ITERATIONS).map_or(0, |sink| sink.samples());
        if iterations == 0 && script.failure.is_none() {
            let text = match self.run.script.sources.is_endless() {
                true => {
                    "No script iterations fully finished, because a loop of the script has no end"
                }
                false => {
                    "No script iterations fully finished, consider making the test duration longer"
                }
            };
            self.log.say(Level::Warning, text);
        }
        let iterations_known = (seen == Seen::Here).then_some(iterations);
        for warning in hints::after(self.run, script, iterations_known) {
            self.log.say(Level::Warning, warning);
        }
    }
}

/// The summary of a script that is not here: how it looks is the default.
pub fn tell_plainly(result: &RunResult, output: &OutputArgs, on_stderr: bool) -> ExitCode {
    let exit = report::exit_code(result);
    if let Some(path) = &output.summary
        && let Err(error) = report::Summary::new(result).write(path)
    {
        eprintln!("volley: could not write the summary {}: {error}", path.display());
    }
    if let Some(script) = result.script.as_ref().filter(|_| !output.quiet && !never_began(result)) {
        let options = summary_options(&Options::default(), output);
        let results = results(result, script, &options);
        put(&results.text(SummaryMode::default()), on_stderr || output.data_on_stdout());
    }
    if !output.quiet {
        report::addenda::lines(result)
            .iter()
            .for_each(|line| eprintln!("addenda: {}", print::shown(line)));
    }
    if output.quiet || !exit.passed() {
        eprint!("{}", print::shown(&commands::runner::quiet_line(result, &exit)));
    }
    exit.code
}

fn summary_options(options: &Options, output: &OutputArgs) -> SummaryOptions {
    SummaryOptions {
        trend_stats: outputs::trend_stats(options),
        time_unit: outputs::time_unit(options),
        no_color: output.no_color || !dashboard::wants_color(false, true),
        stdout_is_terminal: std::io::stdout().is_terminal(),
        stderr_is_terminal: std::io::stderr().is_terminal(),
    }
}

fn results<'a>(
    result: &RunResult,
    script: &'a ScriptResult,
    options: &'a SummaryOptions,
) -> Results<'a> {
    Results {
        layout: &script.layout,
        total: &script.totals,
        outcomes: &script.thresholds,
        duration: result.elapsed,
        options,
    }
}

/// Words for people.
fn put(text: &str, on_stderr: bool) {
    match on_stderr {
        true => eprint!("{}", print::shown(text)),
        false => print::page(text),
    }
}

/// All scenarios failed before they began. A summary would tick thresholds on which nothing was
/// measured; `volley run` has none then either.
fn never_began(result: &RunResult) -> bool {
    let failed = |workflow: &stats::WorkflowResult| {
        matches!(workflow.status, stats::WorkflowStatus::Failed { .. })
    };
    !result.workflows.is_empty() && result.workflows.iter().all(failed)
}
