//! Jobs on a cluster, from the client's side: `submit`, `watch`, `status`, `jobs`, `cancel`,
//! `results`, `drain`, `managers`, and `ctl --job`.

mod access;
mod follow;
mod managers;
mod pack;
mod results;
mod submit;
pub mod tables;
mod voters;
mod web;

use std::future::Future;
use std::time::Duration;

use ::fleet::client::{ClientOptions, FleetClient, FleetError, Steering};
use ::fleet::wire::proto::{self, JobState, NodeRole, NodeState, Outcome};
use fence::JobId;
use report::ExitCode;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::access::ClusterAccess;
use crate::cli::{
    CancelArgs, CtlAction, CtlArgs, DrainArgs, FleetPlace, FleetStatusArgs, JobsArgs,
};
use crate::failure::{Failure, Threads, block_on, told};
use crate::print;

pub use managers::managers;
pub use results::{results, watch};
pub use submit::submit;
pub use web::web;

/// For an answer while somebody types.
const COMPLETE_WITHIN: Duration = Duration::from_millis(400);
/// Between two looks at a node that drains.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Runs what needs the network.
fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on(Threads::This, work)
}

/// For completions, which nobody waits for long: what the cluster that is known here says, or
/// nothing.
fn ask_quickly<T>(ask: impl AsyncFnOnce(FleetClient) -> Result<T, FleetError>) -> Option<T> {
    let place = FleetPlace { timeout: Some(COMPLETE_WITHIN), ..FleetPlace::default() };
    let access = ClusterAccess::open(&place).ok()?;
    let options = ClientOptions {
        credentials: access.credentials,
        managers: access.managers,
        deadline: COMPLETE_WITHIN,
        patience: COMPLETE_WITHIN,
        notice: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { ask(FleetClient::connect(options).await.ok()?).await.ok() })
}

/// Ids of jobs, with their plan and state.
pub fn known_jobs() -> Vec<(String, String)> {
    let list = ask_quickly(async |client| client.list(true, 50).await);
    let jobs = list.map(|list| list.jobs).unwrap_or_default();
    let named = jobs.into_iter().map(|job| {
        let id: String = tables::id(&job.job).chars().take(8).collect();
        (id, format!("{}, {}", job.name, job.state().word()))
    });
    named.collect()
}

/// Ids of jobs that have not ended, with their names.
pub fn running_jobs() -> Vec<(String, String)> {
    let list = ask_quickly(async |client| client.list(false, 20).await);
    let jobs = list.map(|list| list.jobs).unwrap_or_default().into_iter();
    let short = |job: &[u8]| tables::id(job).chars().take(8).collect::<String>();
    jobs.map(|job| (short(&job.job), report::format::clean(&job.name))).collect()
}

/// Ids of nodes, with their role and address.
pub fn known_nodes() -> Vec<(String, String)> {
    let fleet = ask_quickly(async |client| client.fleet().await);
    let nodes = fleet.map(|fleet| fleet.nodes).unwrap_or_default();
    let named = nodes.into_iter().map(|node| {
        let id: String = node.node.chars().take(8).collect();
        (id, format!("{} {}, {}", node.role().word(), node.address, node.state().word()))
    });
    named.collect()
}

/// The beginning of an id, as people type it.
fn short(job: JobId) -> String {
    job.to_string().chars().take(8).collect()
}

pub fn status(args: &FleetStatusArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        match &args.job {
            Some(job) => show_job(&access, &client, job, args.json).await,
            None => {
                let fleet = client.fleet().await.map_err(|error| access.explain(&error))?;
                let jobs = client.list(false, 20).await.map_err(|error| access.explain(&error))?;
                if args.json {
                    print::line(&tables::fleet_json(&fleet, &jobs).to_string());
                } else {
                    print::page(&tables::fleet(&fleet, &jobs));
                }
                Ok(ExitCode::Passed)
            }
        }
    }))
}

async fn show_job(
    access: &ClusterAccess,
    client: &FleetClient,
    job: &str,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let job = client.find(job).await.map_err(|error| access.explain(&error))?;
    let status = client.status(job).await.map_err(|error| access.explain(&error))?;
    if as_json {
        print::line(&tables::whole_job_json(&status).to_string());
    } else {
        print::page(&tables::job(&status));
    }
    Ok(ExitCode::Passed)
}

pub fn jobs(args: &JobsArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let list = client.list(args.ended, args.limit).await.map_err(|e| access.explain(&e))?;
        if args.json {
            print::line(&tables::jobs_json(&list).to_string());
        } else {
            print::page(&tables::jobs(&list, args.ended));
        }
        Ok(ExitCode::Passed)
    }))
}

pub fn cancel(args: &CancelArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let job = client.find(&args.job).await.map_err(|error| access.explain(&error))?;
        let reply = client.cancel(job, &args.reason, args.now).await;
        let reply = reply.map_err(|error| access.explain(&error))?;
        if args.json {
            let text = json!({
                "job": job.to_string(), "state": cancel_state(&reply), "already": reply.already,
                "now": reply.now, "within_s": reply.within_ms as f64 / 1_000.0,
            });
            print::line(&text.to_string());
        } else {
            print::line(&cancelled(job, &reply));
        }
        Ok(ExitCode::Passed)
    }))
}

/// `cancelling`, or the outcome of a job that had ended before.
fn cancel_state(reply: &proto::CancelReply) -> String {
    match reply.outcome() {
        Outcome::Unspecified => JobState::Cancelling.word(),
        outcome => outcome.word(),
    }
}

fn cancelled(job: JobId, reply: &proto::CancelReply) -> String {
    let job = short(job);
    match (reply.already, reply.now, reply.outcome()) {
        (false, false, _) => format!(
            "job {job} is being cancelled: what runs ends gracefully, then its teardown runs (a second cancel, or \
             --now, ends it at once)"
        ),
        (false, true, _) => format!("job {job} is being cancelled, at once"),
        (true, _, Outcome::Unspecified) => format!("job {job} was being cancelled already"),
        // What is over stays as it was (R5).
        (true, _, outcome) => {
            let outcome = outcome.word().to_lowercase();
            format!("job {job} has ended already: {outcome}; nothing was changed")
        }
    }
}

fn steered(reply: &proto::SteerReply) -> String {
    match &reply.missed[..] {
        [] => reply.said.clone(),
        missed => format!(
            "{}; written down, but not followed yet by: {} (they are told as soon as they answer)",
            reply.said,
            missed.join(", ")
        ),
    }
}

fn scaled(done: &[(String, proto::SteerReply)]) -> String {
    let said = done.iter().map(|(name, reply)| format!("{name}: {}", steered(reply)));
    said.collect::<Vec<_>>().join("\n")
}

pub fn drain(args: &DrainArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        let fleet = client.fleet().await.map_err(|error| access.explain(&error))?;
        let nodes = fleet.nodes.iter().map(|node| (&*node.node, &*node.address));
        let node = one_node(nodes, &args.node, "volley status")?;
        if !args.force
            && let Some(why) = managers::needed(&access, &client, &node).await?
        {
            return Err(Failure::failed(why).help("--force drains it all the same"));
        }
        let others = fleet.nodes.iter().filter(|one| is_ready_worker(one) && one.node != node);
        let is_worker =
            fleet.nodes.iter().any(|one| one.node == node && one.role() == NodeRole::Worker);
        if is_worker && others.count() == 0 {
            eprintln!("volley: no other worker is ready: jobs wait until one comes");
        }
        let reply = client.drain(&node).await.map_err(|error| access.explain(&error))?;
        let done = match args.wait {
            Some(wait) => until_gone(&client, &node, wait).await,
            None => false,
        };
        let said = match done {
            true => "it has finished and left",
            false => &reply.said,
        };
        if args.json {
            let text = json!({ "node": node, "said": said, "done": done });
            print::line(&text.to_string());
        } else {
            print::line(said);
        }
        // Somebody who waits wants to know whether it was enough.
        Ok(if args.wait.is_some() && !done { ExitCode::Failed } else { ExitCode::Passed })
    }))
}

fn is_ready_worker(node: &proto::FleetNode) -> bool {
    node.role() == NodeRole::Worker && node.state() == NodeState::Alive
}

/// Until the others have seen the node leave. Who was asked may be the one that leaves, so that
/// nobody answers is no reason to give up.
async fn until_gone(client: &FleetClient, node: &str, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        if let Ok(fleet) = client.fleet().await {
            let known = fleet.nodes.iter().find(|known| known.node == node);
            if known.is_none_or(|known| matches!(known.state(), NodeState::Left | NodeState::Dead))
            {
                return true;
            }
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// The node that is meant, by its id, the beginning of it, or its address.
/// `nodes`: ids and addresses. `list`: the command that shows them.
fn one_node<'a>(
    nodes: impl Iterator<Item = (&'a str, &'a str)>,
    wanted: &str,
    list: &str,
) -> Result<String, Failure> {
    let lower = wanted.to_ascii_lowercase();
    let is_it = |(node, address): &(&str, &str)| {
        *address == wanted || (!lower.is_empty() && node.starts_with(&lower))
    };
    let mut found: Vec<&str> = nodes.filter(is_it).map(|(node, _)| node).collect();
    // A node may have several addresses.
    found.dedup();
    match &found[..] {
        [node] => Ok((*node).to_owned()),
        [] => {
            let what = format!("no node is called `{wanted}` here");
            let help =
                format!("give its id, the beginning of it, or its address, as `{list}` lists them");
            Err(Failure::failed(what).help(help))
        }
        several => {
            let names = several.join(", ");
            Err(Failure::failed(format!("`{wanted}` is the beginning of several: {names}")))
        }
    }
}

/// `volley ctl --job JOB ...`
pub fn steer(args: &CtlArgs, job: &str) -> ExitCode {
    let steering = match &args.action {
        CtlAction::Status { .. } | CtlAction::Stop => None,
        CtlAction::Pause => Some(Steering::Pause),
        CtlAction::Resume => Some(Steering::Resume),
        CtlAction::Scale { vus: Some(vus), workflow, .. } => {
            Some(Steering::Vus { workflow: workflow.clone(), vus: *vus })
        }
        CtlAction::Scale { rate: Some(rate), workflow, .. } => {
            let per_second = rate.events as f64 / rate.per.as_secs_f64().max(1e-9);
            Some(Steering::Rate { workflow: workflow.clone(), per_second })
        }
        CtlAction::Scale { by: Some(_), .. } => None,
        CtlAction::Scale { .. } => {
            return Failure::usage("scale needs --vus, --rate or --by").tell();
        }
    };
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?;
        if let CtlAction::Status { json } = args.action {
            return show_job(&access, &client, job, json).await;
        }
        let job = client.find(job).await.map_err(|error| access.explain(&error))?;
        if let CtlAction::Scale { by: Some(factor), workflow, .. } = &args.action {
            let done = client.scale(job, workflow.as_deref(), *factor).await;
            let done = done.map_err(|error| access.explain(&error))?;
            print::line(&scaled(&done));
            let all = done.iter().all(|(_, reply)| reply.missed.is_empty());
            return Ok(if all { ExitCode::Passed } else { ExitCode::Failed });
        }
        let Some(steering) = &steering else {
            let reply = client.cancel(job, "volley ctl stop", false).await;
            print::line(&cancelled(job, &reply.map_err(|error| access.explain(&error))?));
            return Ok(ExitCode::Passed);
        };
        let reply = client.steer(job, steering).await.map_err(|error| access.explain(&error))?;
        print::line(&steered(&reply));
        Ok(if reply.missed.is_empty() { ExitCode::Passed } else { ExitCode::Failed })
    }))
}
