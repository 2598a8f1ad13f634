//! `volley submit`: read, pack, upload, submit; with --watch, the rest of `volley run`.

use std::io::IsTerminal;
use std::sync::Arc;

use ::fleet::client::keys::{self, Kept};
use ::fleet::client::{FleetClient, FleetError, Submission, Submitted};
use bytes::Bytes;
use fence::JobId;
use report::ExitCode;
use serde_json::json;

use super::follow::{Followed, follow};
use super::pack::pack;
use super::results::{check, write};
use super::voters::Seen;
use super::{ClusterAccess, run, short};
use crate::cli::SubmitArgs;
use crate::failure::{Failure, told};
use crate::{cluster, print};

/// Smaller ones are there before anybody could read how far they are.
const SHOWN_FROM_BYTES: u64 = 8 << 20;

pub fn submit(args: &SubmitArgs) -> ExitCode {
    if let Err(exit) = check(&args.follow) {
        return exit;
    }
    let packed = match pack(args) {
        Ok(packed) => packed,
        Err(exit) => return exit,
    };
    if !args.watch && (args.follow.summary.is_some() || !args.follow.output.is_empty()) {
        eprintln!(
            "volley: --summary and --output are written with --watch, or later by `volley results JOB --summary FILE`"
        );
    }
    let name = args.name.clone().unwrap_or_else(|| packed.bundle.name.clone());
    let bytes = match packed.bundle.encode() {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) => return Failure::invalid(error).tell(),
    };
    let done = run(async {
        let mut access = ClusterAccess::open(&args.at)?;
        access.patience = args.patience;
        let client = access.connect().await?;
        let submitted = hand_in(args, &access, &client, &name, bytes).await?;
        tell_accepted(args, &access, submitted, &name);
        if !args.watch && !args.follow.quiet {
            tell_if_nobody_works(&client).await;
        }
        if !args.watch {
            return Ok(None);
        }
        packed.introduce();
        let followed = follow(&access, &client, submitted.job, &args.follow).await;
        let followed = followed.map_err(|error| access.explain_watch(&error))?;
        let wants_summary = args.follow.summary.is_some();
        let followed = followed.conclude(submitted.job, &access, wants_summary)?;
        Ok(Some((followed, super::short(submitted.job))))
    });
    told(done.map(|followed| match followed {
        None => ExitCode::Passed,
        Some((Followed::Detached { .. } | Followed::Removed, _)) => ExitCode::Interrupted,
        Some((Followed::Ended(mut result), job)) => {
            write(&mut result, &args.follow, &job);
            packed.tell(&result, args)
        }
    }))
}

/// Upload and submission; the key stays on disk until there is an answer.
async fn hand_in(
    args: &SubmitArgs,
    access: &ClusterAccess,
    client: &FleetClient,
    name: &str,
    bytes: Bytes,
) -> Result<Submitted, Failure> {
    let bundle = client.put(bytes, progress(args)).await.map_err(|error| access.explain(&error))?;
    let kept = match &args.key {
        Some(_) => None,
        None => keep_key(access, name, &bundle)?,
    };
    let key = match (&args.key, &kept) {
        (Some(key), _) => key.to_string(),
        (None, Some(kept)) => kept.key.clone(),
        (None, None) => keys::draw().map_err(Failure::failed)?,
    };
    if let Some(kept) = kept.as_ref().filter(|kept| kept.is_found) {
        eprintln!(
            "volley: this was submitted {} s ago and had no answer; it is asked for again with the same key",
            kept.age.as_secs()
        );
    }
    let age = kept.as_ref().map(|kept| kept.age).unwrap_or_default();
    let submission = Submission { key, name: name.to_owned(), bundle, age };
    let answer = client.submit(&submission).await;
    // Anything but an answer leaves the key for the next try.
    if let (Ok(_) | Err(FleetError::Rejected { .. }), Some(kept)) = (&answer, kept) {
        kept.forget();
    }
    match answer {
        Ok(submitted) => Ok(submitted),
        Err(error) => Err(why_not(access, client, &error).await),
    }
}

/// Whoever waited for a ledger without a majority should know whom it lacks.
async fn why_not(access: &ClusterAccess, client: &FleetClient, error: &FleetError) -> Failure {
    let failure = access.explain(error);
    if !matches!(error, FleetError::NotAccepted { .. } | FleetError::Undecided { .. }) {
        return failure;
    }
    let Ok(seen) = Seen::look(access, client).await else { return failure };
    if seen.can_decide() {
        return failure;
    }
    let away: Vec<String> =
        seen.silent().map(|(member, why)| format!("{}: {why}", member.address)).collect();
    failure.help(format!("{} ({})", seen.summary(), away.join("; ")))
}

fn keep_key(
    access: &ClusterAccess,
    name: &str,
    bundle: &ledger_state::BlobRef,
) -> Result<Option<Kept>, Failure> {
    let Some(state) = cluster::state_folder() else {
        eprintln!("volley: no HOME and no XDG_STATE_HOME: the submission's key is not kept");
        return Ok(None);
    };
    let files = &access.credentials;
    let own = trust::Credentials::load(&files.certificate, &files.key, &files.ca);
    let own = own.map_err(|error| Failure::failed(error).at(access.certs.display()))?;
    let hash = keys::hash(&own.identity().cluster, bundle, name);
    let kept = keys::keep(&state.join("submissions"), &hash);
    Ok(Some(kept.map_err(Failure::failed)?))
}

fn progress(args: &SubmitArgs) -> ::fleet::client::Progress {
    let shown = std::io::stderr().is_terminal() && !args.follow.quiet && !args.follow.json;
    Arc::new(move |done, of| {
        if shown && of >= SHOWN_FROM_BYTES {
            let end = if done == of { "\n" } else { "" };
            eprint!("\rsending {} of {} MiB{end}", done >> 20, of >> 20);
        }
    })
}

fn tell_accepted(args: &SubmitArgs, access: &ClusterAccess, submitted: Submitted, name: &str) {
    let Submitted { job, repeated } = submitted;
    if args.follow.json {
        let text = json!({ "job": job.to_string(), "name": name, "repeated": repeated });
        print::line(&text.to_string());
        return;
    }
    if !args.watch {
        print::line(&job.to_string());
    }
    if args.follow.quiet {
        return;
    }
    let known = if repeated { " (it had been accepted before)" } else { "" };
    eprintln!("job {} accepted{known}: {name}", short(job));
    if !args.watch {
        eprintln!("{}", how_to_go_on(job, &access.flags));
    }
}

/// A job that waits for a worker should not be left to wait by mistake.
async fn tell_if_nobody_works(client: &FleetClient) {
    let Ok(fleet) = client.fleet().await else { return };
    if !fleet.nodes.iter().any(super::is_ready_worker) {
        eprintln!(
            "volley: there are no workers now; it waits until one comes (`volley worker --join MANAGER`)"
        );
    }
}

/// What one can do with a job that runs by itself.
pub fn how_to_go_on(job: JobId, flags: &str) -> String {
    let job = short(job);
    format!(
        "  volley watch {job}{flags}     show it until it has ended\n  volley cancel {job}{flags}    end it"
    )
}
