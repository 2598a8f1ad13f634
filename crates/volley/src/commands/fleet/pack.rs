//! What is submitted: the plan or the script with everything that belongs to it, read as
//! `volley run` reads it.

use ::fleet::bundle::Bundle;
use ::fleet::client::pack::{PackError, pack_plan};
use control::owner::{OnWorkerLoss, Policy, WhenFull};
use plan::ReadOptions;
use report::ExitCode;
use stats::RunResult;

use crate::cli::{FullPolicy, LoadArgs, LossPolicy, RunArgs, ScriptArgs, SubmitArgs};
use crate::commands::rows::short_of_rows;
use crate::commands::run::{Asked, environment, for_scripts};
use crate::commands::runner::{self, Style};
use crate::commands::script::{self, Remote};
use crate::commands::stdin;
use crate::failure::Failure;

pub struct Packed {
    pub bundle: Bundle,
    script: Option<Box<Remote>>,
}

/// The exit code, if it cannot be done; it has been said why.
pub fn pack(args: &SubmitArgs) -> Result<Packed, ExitCode> {
    if stdin::is_meant(&args.plan) {
        let is_script = stdin::is_script().map_err(|failure| failure.tell())?;
        if !is_script {
            let what = "a plan is submitted from a file, with what it names beside it";
            let help = "write it into a file: `volley submit plan.yaml`; `volley run -` takes it";
            return Err(Failure::usage(what).help(help).tell());
        }
    }
    if script::is_script(&args.plan) {
        return pack_script(args);
    }
    let usage = |text: String| Failure::usage(text).tell();
    if let Some(flag) = args.script.first_given() {
        return Err(usage(for_scripts(flag)));
    }
    let of_load = [
        ("--vus", args.vus.is_some()),
        ("--duration", args.duration.is_some()),
        ("--iterations", args.script.iterations.is_some()),
        ("--stage", !args.script.stages.is_empty()),
    ];
    for (flag, given) in of_load {
        if given {
            return Err(usage(format!(
                "{flag} is for scripts here; write it in the plan, as ${{env.NAME:-default}} if it is to vary, and \
                 submit with -e"
            )));
        }
    }
    let asked = Asked::default();
    let look_up = asked.noting(environment(&args.env));
    let options = ReadOptions {
        target: args.target.as_deref(),
        key_fits: Some(&engine::key_fits),
        ..ReadOptions::new(&look_up)
    };
    let (plan, bundle) = match pack_plan(&args.plan, &options, policy(args)) {
        Ok(packed) => packed,
        Err(PackError::Plan(problems)) => {
            eprintln!("{}", plan::advise(&args.plan, problems));
            return Err(ExitCode::InvalidPlan);
        }
        Err(PackError::Load(error)) => return Err(Failure::invalid(error).tell()),
    };
    let unread = asked.unread(&args.plan, &args.env);
    plan.warnings.iter().chain(&unread).for_each(|word| eprintln!("volley: {}", word.in_a_line()));
    short_of_rows(&plan).iter().for_each(|word| eprintln!("volley: {word}"));
    Ok(Packed { bundle, script: None })
}

fn pack_script(args: &SubmitArgs) -> Result<Packed, ExitCode> {
    let usage = |text: &str| Failure::usage(text).tell();
    if args.target.is_some() {
        eprintln!("volley: --target is for plans; a script takes `-e NAME=VALUE`");
    }
    if args.script.paused {
        return Err(usage(
            "--paused is for `volley run`; a job is paused with `volley ctl --job JOB pause`",
        ));
    }
    if args.script.execution_segment.is_some() || args.script.execution_segment_sequence.is_some() {
        return Err(usage(
            "--execution-segment is for `volley run`; a cluster divides the load itself",
        ));
    }
    // What this machine's environment holds is nobody's business, unless it is asked for.
    let whole = args.script.include_system_env_vars == Some(true);
    let script = ScriptArgs { include_system_env_vars: Some(whole), ..args.script.clone() };
    let args_of_run = RunArgs {
        plan: args.plan.clone(),
        load: LoadArgs { vus: args.vus, duration: args.duration, target: None },
        env: args.env.clone(),
        output: args.follow.output(),
        script,
        ..RunArgs::default()
    };
    let prepared = script::prepare_for_cluster(&args_of_run)?;
    let bundle = prepared.bundle(policy(args));
    let bundle = bundle.map_err(|error| Failure::invalid(error).tell())?;
    Ok(Packed { bundle, script: Some(Box::new(prepared)) })
}

fn policy(args: &SubmitArgs) -> Policy {
    Policy {
        on_worker_loss: match args.on_worker_loss {
            LossPolicy::Rebalance => OnWorkerLoss::Rebalance,
            LossPolicy::Continue => OnWorkerLoss::Continue,
            LossPolicy::Fail => OnWorkerLoss::Fail,
        },
        when_full: match args.when_full {
            FullPolicy::Queue => WhenFull::Queue,
            FullPolicy::Refuse => WhenFull::Refuse,
        },
        cores_min: args.cores_min,
        queue_at_most: args.queue_at_most,
        ..Policy::default()
    }
}

impl Packed {
    /// What a script says of itself before it runs.
    pub fn introduce(&self) {
        if let Some(script) = &self.script {
            script.introduce();
        }
    }

    /// Summary on the terminal and in files, and the exit code: as `volley run` does it.
    pub fn tell(&self, result: &RunResult, args: &SubmitArgs) -> ExitCode {
        match &self.script {
            Some(script) => script.tell(result, args.follow.json),
            None => runner::tell_on(result, &args.follow.output(), Style::Full, args.follow.json),
        }
    }
}
