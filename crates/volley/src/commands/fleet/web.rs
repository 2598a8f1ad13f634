//! `volley web`: the jobs of a cluster in a browser of this machine.
//!
//! The page is served here, and the cluster is asked with this client's certificate: what a person
//! may do there is what that certificate may do. Each job that is looked at has one watch, which
//! finds the job's owner again whoever dies; it ends some time after the last viewer has gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::fleet::client::{FleetClient, FleetError, Steering, WatchUpdate};
use ::fleet::wire::proto;
use fence::JobId;
use report::{ExitCode, Record};
use serde_json::{Value, json};
use stats::Progress;
use stats::feed::Shown;
use stats::wire::decode_result;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use web::{Answer, Board, Server, Site, Wish};

use super::access::ClusterAccess;
use super::{cancelled, run, scaled, steered, tables};
use crate::cli::WebCommandArgs;
use crate::commands::{page, report as keep};
use crate::failure::{Failure, told};
use crate::signals;

/// Jobs that are watched at once; the one that nobody has looked at for longest gives way.
const WATCHED_MAX: usize = 20;
/// A watch goes on for so long without a viewer.
const UNSEEN_MAX: Duration = Duration::from_secs(60);
/// Between two looks at whether there is still a viewer, and after a watch that failed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Jobs in the list.
const JOBS_MAX: u32 = 100;
/// How long the command waits for pages when it ends.
const LAST_WAIT: Duration = Duration::from_millis(150);

pub fn web(args: &WebCommandArgs) -> ExitCode {
    told(run(async {
        let access = ClusterAccess::open(&args.at)?;
        let client = access.connect().await?.without_notice();
        // Whoever cannot get in is told now, and not by an empty page.
        client.managers().await.map_err(|error| access.explain(&error))?;
        let title = access.managers.join(", ");
        let site = Arc::new(FleetSite {
            client,
            title,
            runtime: Handle::current(),
            boards: Mutex::default(),
        });
        let listen = args.listen.unwrap_or(web::Listen::Usual);
        let options = web::Options { listen, hosts: args.web_host.clone() };
        let server = Server::start(&options, site)
            .map_err(|error| Failure::invalid(error).at("--listen"))?;
        page::tell(&server, "the cluster");
        if args.open {
            page::show(&server.link());
        }
        eprintln!("volley: Ctrl-C ends the page; jobs go on");
        let (stop, mut stopped) = tokio::sync::mpsc::unbounded_channel();
        signals::on_interrupt_or_hangup(move || {
            let _ = stop.send(());
        });
        stopped.recv().await;
        server.close(LAST_WAIT);
        Ok(ExitCode::Passed)
    }))
}

struct FleetSite {
    client: FleetClient,
    title: String,
    /// Where the client's connections live.
    runtime: Handle,
    boards: Mutex<BTreeMap<JobId, Arc<Board>>>,
}

impl FleetSite {
    fn boards(&self) -> MutexGuard<'_, BTreeMap<JobId, Arc<Board>>> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs where the client's connections live, whoever asks.
fn there<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Answer<T> {
    let work = runtime.spawn(work);
    Box::pin(async { work.await.unwrap_or_else(|error| Err(error.to_string())) })
}

impl Site for FleetSite {
    fn is_fleet(&self) -> bool {
        true
    }

    fn board(&self, run: &str) -> Option<Arc<Board>> {
        let job: JobId = run.parse().ok()?;
        let mut boards = self.boards();
        if let Some(board) = boards.get(&job) {
            return Some(board.clone());
        }
        boards.retain(|_, board| board.viewers() > 0 || !board.is_over());
        if boards.len() >= WATCHED_MAX {
            return None;
        }
        let board = Arc::new(Board::new(keep::about(None, Some(job.to_string()))));
        boards.insert(job, board.clone());
        self.runtime.spawn(attend(self.client.clone(), job, Arc::downgrade(&board)));
        Some(board)
    }

    fn steer(&self, run: &str, wish: Wish) -> Answer<String> {
        let Ok(job) = run.parse::<JobId>() else {
            return Box::pin(async { Err("there is no such job".to_owned()) });
        };
        let client = self.client.clone();
        there(&self.runtime, async move {
            let done = match wish {
                Wish::Pause => client.steer(job, &Steering::Pause).await.map(|it| steered(&it)),
                Wish::Resume => client.steer(job, &Steering::Resume).await.map(|it| steered(&it)),
                Wish::Scale(factor) => client.scale(job, None, factor).await.map(|it| scaled(&it)),
                Wish::Stop => {
                    let reply = client.cancel(job, "stopped on the page", false).await;
                    reply.map(|reply| cancelled(job, &reply))
                }
            };
            done.map_err(|error| error.to_string())
        })
    }

    fn list(&self) -> Answer<Value> {
        let (client, title) = (self.client.clone(), self.title.clone());
        there(&self.runtime, async move {
            let jobs = client.list(true, JOBS_MAX).await.map_err(|error| error.to_string())?;
            let fleet = client.fleet().await.map_err(|error| error.to_string())?;
            Ok(list(&title, &jobs, &fleet))
        })
    }
}

fn list(title: &str, jobs: &proto::ListReply, fleet: &proto::FleetReply) -> Value {
    let more = match jobs.more {
        0 => String::new(),
        more => format!("{more} more jobs are not shown; `volley jobs --ended` lists them"),
    };
    let job = |job: &proto::JobStatus| {
        let counters = job.counters.unwrap_or_default();
        let outcome = tables::outcome_of(job);
        json!({
            "id": tables::id(&job.job), "name": job.name, "state": job.state().word(),
            "outcome": outcome, "ended": !outcome.is_empty(), "good": outcome == "completed",
            "detail": job.detail, "age": format!("{} ago", tables::age(job.age_ms)),
            "requests": counters.completed, "failed": counters.failed,
            "by": job.submitted_by, "owner": tables::start(&job.owner),
        })
    };
    let node = |row: &[String; 6]| {
        let [name, role, address, state, cores, work] = row;
        let about = [address, cores, work].map(String::as_str).join(" · ");
        json!({
            "name": name, "role": role, "state": state, "good": state.starts_with("alive"),
            "about": about,
        })
    };
    let nodes: Vec<Value> = tables::node_rows(fleet).iter().map(node).collect();
    json!({
        "title": title, "words": more, "nodes": nodes,
        "jobs": jobs.jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

/// Feeds a board from a watch, until the job has ended or nobody has looked for some time.
async fn attend(client: FleetClient, job: JobId, board: std::sync::Weak<Board>) {
    let mut watch = client.watch(job, false).in_full();
    let mut seen = Instant::now();
    loop {
        let update = timeout(LOOK_AGAIN, watch.next()).await;
        let Some(board) = board.upgrade() else { return };
        if board.viewers() > 0 {
            seen = Instant::now();
        }
        if seen.elapsed() > UNSEEN_MAX {
            board.say("nobody has looked at this job for some time; load the page again");
            return;
        }
        match update {
            Err(_) => {}
            Ok(Ok(Some(update))) => {
                if take(&board, update) {
                    return;
                }
            }
            Ok(Ok(None)) => return,
            Ok(Err(error)) => {
                board.say(&words(&error));
                drop(board);
                sleep(LOOK_AGAIN).await;
                watch = client.watch(job, false).in_full();
            }
        }
    }
}

/// True: it was the last.
fn take(board: &Board, update: WatchUpdate) -> bool {
    match update {
        WatchUpdate::Shown(Shown::Progress { state, planned, result }) => {
            match decode_result(&result) {
                Ok(result) => {
                    board.say("");
                    board.publish(Progress { state, planned, result });
                }
                Err(error) => board.say(&format!("the job's figures cannot be read: {error}")),
            }
        }
        WatchUpdate::Shown(Shown::State { why, .. }) => board.say(&why),
        WatchUpdate::Shown(_) => {}
        WatchUpdate::Broken(broken) => {
            if let Some(all) = broken.all {
                board.say(&format!("no manager tells of the job now: {}", all.join("; ")));
            }
        }
        WatchUpdate::Final(result) => {
            board.finish(&Record::new(&result, board.about()));
            return true;
        }
    }
    false
}

fn words(error: &FleetError) -> String {
    format!("{error}; it is tried again")
}
