//! A script that runs elsewhere: prepared and packed here, and its summary shown here.

use std::sync::Arc;

use ::fleet::bundle::Bundle;
use control::owner::Policy;
use engine::attempt::{LoadError, PackedScript};
use engine::script::ScriptRun;
use report::k6::{Results, SummaryMode, SummaryOptions};
use script::log::Logger;
use script::options::Options;
use stats::RunResult;

use crate::print;

use super::log::Log;
use super::{Ready, Refused, Told, never_began, outputs, prepare, tell};
use crate::cli::{OutputArgs, RunArgs};
use crate::exit;

/// A script whose init code has run here.
pub struct Prepared {
    args: RunArgs,
    log: Arc<Log>,
    ready: Ready,
}

/// The exit code, if it cannot be done; it has been said why.
pub fn prepare_for_cluster(args: &RunArgs) -> Result<Prepared, i32> {
    let args = RunArgs { script: args.script.with_environment(), ..args.clone() };
    let opened = Log::open(
        args.script.log_output.as_deref().unwrap_or("stderr"),
        args.script.log_format.as_deref().unwrap_or("text"),
        args.script.console_output.as_deref(),
        args.script.verbose,
    );
    let log = opened.map_err(|problem| {
        eprintln!("volley: {problem}");
        exit::INVALID
    })?;
    if let Some(path) = &args.script.summary_export
        && let Err(error) = report::outputs::check_writable(path)
    {
        eprintln!("volley: --summary-export {}: {error}", path.display());
        return Err(exit::INVALID);
    }
    let ready = prepare(&args, &log).map_err(|Refused(code)| code)?;
    Ok(Prepared { args, log, ready })
}

impl Prepared {
    pub fn bundle(&self, policy: Policy) -> Result<Bundle, LoadError> {
        let Ready { run, merged, mode, .. } = &self.ready;
        let packed = PackedScript {
            sections: *mode == Some(SummaryMode::Full),
            no_thresholds: self.args.script.no_thresholds,
            strict: self.args.script.strict,
            ..PackedScript::pack(&run.script, merged, &self.args.plan.display().to_string())
        };
        // Opened as the workers open it, so that all agree on the numbers. What its init code prints has been seen.
        let silent: Logger = Arc::new(|_| {});
        let memory = engine::machine::memory_available_bytes() / 10 * 6;
        let opened: ScriptRun = packed.open(&silent, memory)?;
        Bundle::of_script(&Arc::new(opened), packed, policy)
    }

    pub fn introduce(&self) {
        if !self.args.output.quiet {
            self.ready.introduction.iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// As after a local run, `handleSummary` included.
    pub fn tell(&self, result: &RunResult, on_stderr: bool) -> i32 {
        let Ready { run, description, options, mode, .. } = &self.ready;
        let how = Told { on_stderr, saw_log: false };
        tell(&self.args, &self.log, run, description, options, *mode, result, how)
    }
}

/// The summary of a script that is not here.
pub fn tell_plainly(result: &RunResult, output: &OutputArgs, on_stderr: bool) -> i32 {
    use std::io::IsTerminal;
    let exit = report::exit_code(result);
    if let Some(path) = &output.summary
        && let Err(error) = report::Summary::new(result).write(path)
    {
        eprintln!("volley: could not write the summary {}: {error}", path.display());
    }
    if let Some(script) = result.script.as_ref().filter(|_| !output.quiet && !never_began(result)) {
        let options = SummaryOptions {
            trend_stats: outputs::trend_stats(&Options::default()),
            time_unit: None,
            no_color: output.no_color || !dashboard::wants_color(false, true),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
        };
        let results = Results {
            layout: &script.layout,
            total: &script.totals,
            outcomes: &script.thresholds,
            duration: result.elapsed,
            options: &options,
        };
        super::put(&results.text(SummaryMode::default()), on_stderr || output.data_on_stdout());
    }
    if !output.quiet {
        report::addenda::lines(result)
            .iter()
            .for_each(|line| eprintln!("addenda: {}", print::shown(line)));
    }
    if output.quiet || !exit.passed() {
        eprint!("{}", print::shown(&crate::commands::runner::quiet_line(result, &exit)));
    }
    exit.code
}
