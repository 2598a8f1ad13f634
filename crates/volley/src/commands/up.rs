//! `volley up`: a whole datacenter on this machine, in one process or in many.

mod nodes;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fleet::client::{ClientOptions, FleetClient};
use fleet::local::{LocalCluster, LocalError, Place};
use fleet::wire::proto::{JobState, NodeRole, NodeState};
use report::ExitCode;
use report::format::plural;
use serde_json::json;
use trust::Role;

use self::nodes::start;
pub use self::nodes::{Nodes, spawn};
use super::certs::shown;
use super::node::{QUIET, all_cores, interrupts};
use crate::cli::UpArgs;
use crate::cluster::{self, ClientFile};
use crate::failure::{Failure, Threads, block_on, told};
use crate::{log, print};

/// How long others can join with the token that is written.
const TOKEN_VALID: Duration = Duration::from_secs(3600);
/// Until somebody leads and all workers are known.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// For a last question to the cluster.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// A folder that goes with the cluster, unless the user has chosen it.
pub struct Home {
    pub folder: PathBuf,
    pub keep: bool,
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is in the way of nobody.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

pub fn up(args: &UpArgs) -> ExitCode {
    log::to_stderr(QUIET);
    engine::machine::raise_descriptor_limit();
    told(block_on(Threads::PerCore, run(args)))
}

/// How its nodes are started.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Of each worker.
    pub cores: u32,
    pub pace: f64,
    pub lease: Duration,
    /// Each process has a parent that starts it again.
    pub restart: bool,
}

impl Shape {
    fn of(args: &UpArgs) -> Shape {
        // By default the workers share this machine.
        let share = (all_cores() / u32::from(args.workers.max(1))).max(1);
        Shape {
            cores: args.cores.unwrap_or(share),
            pace: args.pace,
            lease: args.lease,
            restart: args.restart,
        }
    }
}

async fn run(args: &UpArgs) -> Result<ExitCode, Failure> {
    let folder = match &args.dir {
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("volley-up-{}", std::process::id())),
    };
    let home = Home { keep: args.dir.is_some(), folder };
    let local = make_or_open(args, &home.folder).map_err(Failure::failed)?;
    let token = local.write_token(TOKEN_VALID).map_err(Failure::failed)?;
    // It is named to people in another terminal, in another folder.
    let token = std::path::absolute(&token).unwrap_or(token);
    let mut stopped = interrupts();
    let shape = Shape::of(args);
    let mut nodes = match args.processes {
        true => Nodes::Processes(spawn(shape, &local)?),
        false => start(shape, &local).await?,
    };
    if args.json {
        print_nodes(&nodes, args.restart).await;
    }
    let file = ClientFile { managers: local.addresses(), certs: local.client.clone() };
    // The same folder has the same addresses: what `up` has left that was killed is this cluster.
    let earlier = running_cluster().await.filter(|(_, other)| other.managers != file.managers);
    if let Some((path, other)) = &earlier {
        eprintln!(
            "volley: another cluster runs here, with managers at {} ({}); until this one ends, commands without \
             --manager go to this one",
            other.managers.join(", "),
            path.display()
        );
    }
    let known = publish(&file);
    let ready = tokio::select! {
        biased;
        _ = stopped.recv() => None,
        ready = until_ready(&file, u32::try_from(local.workers.len()).unwrap_or(u32::MAX)) => Some(ready?),
    };
    if let Some(took) = ready
        && !args.json
    {
        tell(args, &local, &nodes, took, known.as_ref(), &token);
    }
    if ready.is_some() {
        // A node that was killed is the point of the exercise: the rest goes on until Ctrl-C.
        while nodes.any_left() {
            let at = tokio::select! {
                biased;
                _ = stopped.recv() => break,
                at = nodes.one_ended() => at,
            };
            let said = nodes.let_go(at).await;
            eprintln!("volley: {said}; the others go on");
        }
    }
    drop(stopped);
    tell_what_still_runs(&file, &home).await;
    if let Some(folder) = known {
        cluster::remove(&folder, &file);
        if let (Some((_, other)), Some(_)) = (&earlier, running(earlier.as_ref()).await) {
            publish(other);
        }
    }
    nodes.end().await;
    Ok(ExitCode::Passed)
}

/// Who ends a cluster may have forgotten that somebody's job runs on it.
async fn tell_what_still_runs(file: &ClientFile, home: &Home) {
    let jobs = async {
        let client = connect(file).await.ok()?;
        client.list(false, 20).await.ok()
    };
    let Ok(Some(listed)) = tokio::time::timeout(ASK_WITHIN, jobs).await else { return };
    let running = listed.jobs.iter().filter(|job| job.state() != JobState::Ended);
    let names: Vec<String> =
        running.map(|job| super::fleet::tables::id(&job.job).chars().take(8).collect()).collect();
    if names.is_empty() {
        return;
    }
    let (what, jobs) = match names.len() {
        1 => ("has not ended", "job"),
        _ => ("have not ended", "jobs"),
    };
    let names = names.join(", ");
    match home.keep {
        true => eprintln!(
            "volley: {jobs} {names} {what}, and can go on when `volley up --dir {}` is started again",
            home.folder.display()
        ),
        false => eprintln!(
            "volley: {jobs} {names} {what}, and nothing of it is left when this cluster ends; `--dir DIR` keeps it"
        ),
    }
}

/// A line of JSON for each node. Where each has a parent that starts it again, the parent is told,
/// too.
async fn print_nodes(nodes: &Nodes, have_parents: bool) {
    for (place, pid) in nodes.places() {
        let (pid, parent) =
            if have_parents { (node_of(pid).await, Some(pid)) } else { (pid, None) };
        let mut line = json!({
            "role": place.role.to_string(), "name": place.name, "pid": pid,
            "address": place.bind.to_string(), "node": place.node.to_string(),
        });
        if let Some(parent) = parent {
            line["parent"] = parent.into();
        }
        print::line(&line.to_string());
    }
}

/// A folder that was chosen is started again as it was left.
fn make_or_open(args: &UpArgs, folder: &Path) -> Result<LocalCluster, LocalError> {
    let (managers, workers) = (usize::from(args.managers), usize::from(args.workers));
    if managers.is_multiple_of(2) {
        eprintln!(
            "volley: --managers {managers}: as many may be lost as with {}; take 1, 3 or 5",
            managers.saturating_sub(1)
        );
    }
    let Some(local) = LocalCluster::open(folder)? else {
        return LocalCluster::create(folder, managers, workers);
    };
    let there = (local.managers.len(), local.workers.len());
    if there != (managers, workers) {
        eprintln!(
            "volley: {} holds a cluster of {} and {}, and that is what is started; another folder makes a new one",
            folder.display(),
            plural(there.0 as u64, "manager"),
            plural(there.1 as u64, "worker"),
        );
    }
    Ok(local)
}

/// The cluster of an earlier `volley up` that still runs.
async fn running_cluster() -> Option<(PathBuf, ClientFile)> {
    let path = cluster::default_folder()?.join(cluster::FILE);
    let found = cluster::read(&path).ok().map(|file| (path, file));
    running(found.as_ref()).await?;
    found
}

/// Whether one of its managers listens.
async fn running(found: Option<&(PathBuf, ClientFile)>) -> Option<()> {
    for manager in &found?.1.managers {
        let connecting = tokio::net::TcpStream::connect(manager.as_str());
        if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(500), connecting).await {
            return Some(());
        }
    }
    None
}

/// The node itself, whose parent is `pid`: it is started within moments. 0 if there is none.
async fn node_of(pid: u32) -> u32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    for _ in 0..100 {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
            return child;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    0
}

/// So that `volley submit` finds it without being told. The last one that was started is found.
fn publish(file: &ClientFile) -> Option<PathBuf> {
    let folder = cluster::default_folder()?;
    match cluster::write(&folder, file) {
        Ok(_) => Some(folder),
        Err(problem) => {
            eprintln!("volley: {problem}; name the managers to `volley submit` with --manager");
            None
        }
    }
}

/// A client of the cluster.
pub async fn connect(file: &ClientFile) -> Result<FleetClient, Failure> {
    let credentials = node::config::CredentialFiles {
        certificate: file.certs.join("client.pem"),
        key: file.certs.join("client-key.pem"),
        ca: file.certs.join("ca.pem"),
    };
    let options = ClientOptions::new(credentials, file.managers.clone());
    FleetClient::connect(options).await.map_err(Failure::failed)
}

/// Until somebody leads and all workers are known.
pub async fn until_ready(file: &ClientFile, workers: u32) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut client = None;
    loop {
        // Processes need a moment until they listen.
        if client.is_none() {
            client = connect(file).await.ok();
        }
        let fleet = match &client {
            Some(client) => client.fleet().await.ok(),
            None => None,
        };
        let is_worker = |node: &&fleet::wire::proto::FleetNode| {
            node.role() == NodeRole::Worker && node.state() == NodeState::Alive && node.cores > 0
        };
        match fleet {
            Some(fleet)
                if fleet.nodes.iter().any(|node| node.leads)
                    && fleet.nodes.iter().filter(is_worker).count() >= workers as usize =>
            {
                return Ok(began.elapsed());
            }
            _ if began.elapsed() > READY_WITHIN => {
                let waited = READY_WITHIN.as_secs();
                return Err(Failure::failed(format!("the cluster is not ready after {waited} s"))
                    .help("VOLLEY_LOG=info shows more"));
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn tell(
    args: &UpArgs,
    local: &LocalCluster,
    nodes: &Nodes,
    took: Duration,
    known: Option<&PathBuf>,
    token: &Path,
) {
    let mut text = format!("ready after {:.1} s\n\n", took.as_secs_f64());
    for (place, pid) in nodes.places() {
        let Place { name, role, bind, .. } = place;
        let what = match role {
            Role::Worker => {
                let cores = u64::from(Shape::of(args).cores);
                format!("worker, {}", report::format::plural(cores, "core"))
            }
            _ => "manager".to_owned(),
        };
        let pid = if args.processes { format!("  pid {pid}") } else { String::new() };
        text.push_str(&format!("  {name:4} {bind:21} {what}{pid}\n"));
    }
    let how = match known {
        Some(_) => String::new(),
        None => format!(" --manager {} --certs {}", local.addresses()[0], local.client.display()),
    };
    text.push_str(&format!(
        "\nIn another terminal:\n  volley submit plan.yaml --watch{how}\n  volley jobs{how}\n\n\
         more workers: volley worker --join {} --token-file {} --data ./worker\n\n\
         Ctrl-C ends it all.\n",
        local.addresses()[0],
        shown(token)
    ));
    print::out(&text);
}
