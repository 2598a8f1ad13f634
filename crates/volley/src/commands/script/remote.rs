//! A script that runs elsewhere: made ready here, and its summary shown here.

use std::sync::Arc;

use ::fleet::bundle::Bundle;
use ::fleet::client::pack;
use control::owner::Policy;
use engine::attempt::LoadError;
use report::ExitCode;
use stats::RunResult;

use super::log::Log;
use super::tell::{Seen, Teller};
use super::{Ready, outputs, prepare};
use crate::cli::RunArgs;
use crate::failure::Failure;

/// A script whose init code has run here.
pub struct Remote {
    args: RunArgs,
    log: Arc<Log>,
    ready: Ready,
}

/// The exit code, if it cannot be done; it has been said why.
pub fn prepare_for_cluster(args: &RunArgs) -> Result<Remote, ExitCode> {
    let args = RunArgs { script: args.script.with_environment(), ..args.clone() };
    let log = Log::of_arguments(&args.script).map_err(|failure: Failure| failure.tell())?;
    if let Some(failure) = outputs::check_export(&args.script) {
        return Err(failure.tell());
    }
    let ready = prepare(&args, &log)?;
    Ok(Remote { args, log, ready })
}

impl Remote {
    pub fn bundle(&self, policy: Policy) -> Result<Bundle, LoadError> {
        pack::pack_script(&self.ready.0, policy)
    }

    pub fn introduce(&self) {
        if !self.args.output.quiet {
            self.ready.0.introduction.iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// As after a local run, `handleSummary` included.
    pub fn tell(&self, result: &RunResult, on_stderr: bool) -> ExitCode {
        let (prepared, mode) = &self.ready;
        let teller = Teller {
            args: &self.args,
            log: &self.log,
            run: &prepared.run,
            description: &prepared.description,
            options: &prepared.options,
            mode: *mode,
        };
        teller.tell(result, Seen::Elsewhere { on_stderr })
    }
}
