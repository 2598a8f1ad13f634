//! `volley watch` and `volley results`: a job by its id, while it runs and afterwards.

use ::fleet::wire::proto;
use report::ExitCode;
use report::format;
use report::outputs::write_results;
use serde_json::json;
use stats::RunResult;

use super::follow::{Followed, follow};
use super::{ClusterAccess, run};
use crate::cli::{FollowArgs, ResultsArgs, WatchArgs};
use crate::commands::report as keep;
use crate::commands::runner::{self, Style, check_outputs};
use crate::commands::script;
use crate::failure::told;
use crate::print;

pub fn watch(args: &WatchArgs) -> ExitCode {
    if let Err(exit) = check(&args.follow) {
        return exit;
    }
    let done = run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let job = client.find(&args.job).await.map_err(|error| access.explain(&error))?;
        let followed = follow(&access, &client, job, &args.follow).await;
        let followed = followed.map_err(|error| access.explain_watch(&error))?;
        followed.conclude(job, &access, args.follow.summary.is_some())
    });
    told(done.map(|followed| match followed {
        Followed::Detached { .. } | Followed::Removed => ExitCode::Interrupted,
        Followed::Ended(mut result) => {
            write(&mut result, &args.follow, &args.job);
            tell(&result, &args.follow)
        }
    }))
}

pub fn results(args: &ResultsArgs) -> ExitCode {
    if let Err(exit) = check(&args.follow) {
        return exit;
    }
    let done = run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let job = client.find(&args.job).await.map_err(|error| access.explain(&error))?;
        if args.logs {
            let logs = client.logs(job).await.map_err(|error| access.explain(&error))?;
            print_logs(&logs, args.follow.json);
            return Ok(None);
        }
        client.result(job).await.map(Some).map_err(|error| access.explain(&error))
    });
    let mut result = match done {
        Ok(Some(result)) => result,
        Ok(None) => return ExitCode::Passed,
        Err(failure) => return failure.tell(),
    };
    if args.timeline {
        for entry in &result.timeline {
            print::line(&match args.follow.json {
                true => json!({ "at_s": entry.at.as_secs_f64(), "event": entry.event }).to_string(),
                false => format!("{}  {}", format::moment(entry.at), entry.event),
            });
        }
        return ExitCode::Passed;
    }
    write(&mut result, &args.follow, &args.job);
    if args.follow.json {
        print::line(&report::Summary::new(&result).to_json());
    }
    tell(&result, &args.follow)
}

/// What cannot be written is said before anything else is done.
pub fn check(args: &FollowArgs) -> Result<(), ExitCode> {
    let mut problems = check_outputs(&args.output()).err().unwrap_or_default();
    let streamed = args.output.iter().filter(|target| target.format.is_streamed());
    problems.extend(streamed.map(|target| {
        format!("output {target}: the samples of a job stay on its workers; junit=FILE and hdr=FILE can be written")
    }));
    if problems.is_empty() {
        return Ok(());
    }
    problems.iter().for_each(|problem| eprintln!("volley: {problem}"));
    Err(ExitCode::InvalidPlan)
}

/// Files other than the summary; what went wrong becomes part of the result.
pub fn write(result: &mut RunResult, args: &FollowArgs, job: &str) {
    result.fail_on = args.fail_on.unwrap_or(result.fail_on);
    let written = write_results(&args.output, result);
    result.notes.extend(runner::notes_of(written));
    if args.keep.record.is_none() && args.keep.report.is_none() {
        return;
    }
    let about = keep::about(None, Some(job.to_owned()));
    keep::write(&report::Record::new(result, &about), &args.keep, args.quiet);
}

/// Summary and exit code. The script itself is not here: how its summary looks is the default.
fn tell(result: &RunResult, args: &FollowArgs) -> ExitCode {
    match &result.script {
        Some(_) => script::tell_plainly(result, &args.output(), args.json),
        None => runner::tell_on(result, &args.output(), Style::Full, args.json),
    }
}

fn print_logs(logs: &[proto::AttemptLog], as_json: bool) {
    for log in logs {
        let proto::AttemptLog { workflow, shard, attempt, worker, error, text, .. } = log;
        let status = log.status().word();
        if as_json {
            let counted = log.counters.unwrap_or_default();
            let line = json!({
                "workflow": workflow, "shard": shard, "attempt": attempt, "worker": worker,
                "status": status, "error": error, "text": text,
                "issued": counted.issued, "completed": counted.completed,
            });
            print::line(&line.to_string());
            continue;
        }
        let why =
            if error.is_empty() { String::new() } else { format!(": {}", format::clean(error)) };
        print::line(&format!(
            "== {workflow}, shard {shard}, attempt {attempt}, worker {worker}: {status}{why}"
        ));
        print::out(text);
        if !text.is_empty() && !text.ends_with('\n') {
            print::line("");
        }
    }
    if logs.is_empty() && !as_json {
        eprintln!("volley: no attempt of this job has written anything");
    }
}
