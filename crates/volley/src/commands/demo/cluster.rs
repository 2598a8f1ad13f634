//! `volley demo --cluster`: a job on a fleet of real processes. A worker and the job's owner are
//! killed while it runs.

use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use control::owner::Policy;
use fence::{JobId, NodeId};
use fleet::client::keys;
use fleet::client::pack::pack_plan;
use fleet::client::{FleetClient, JobWatch, Submission, WatchUpdate};
use fleet::local::{LocalCluster, Place};
use plan::ReadOptions;
use report::ExitCode;
use stats::RunResult;
use stats::feed::Shown;
use target::{RunningTarget, Target, TargetConfig};

use crate::cli::DemoArgs;
use crate::cluster::ClientFile;
use crate::commands::node::{QUIET, interrupts};
use crate::commands::up::{Home, Nodes, Shape, connect, spawn, until_ready};
use crate::failure::{Failure, Threads, block_on, told};
use crate::{log, print};

const WORKERS: usize = 3;
const RATE: u64 = 300;
const LENGTH_S: u64 = 30;
/// The second of the run at which each is killed.
const WORKER_DIES: u64 = 6;
const OWNER_DIES: u64 = 17;
/// Shorter than the default, so that the demo is: what is lost is taken over sooner.
const SHAPE: Shape = Shape { cores: 1, pace: 0.5, lease: Duration::from_secs(2), restart: false };

pub fn demo(args: &DemoArgs) -> ExitCode {
    log::to_stderr(QUIET);
    told(block_on(Threads::Two, async {
        // Whatever was started ends with it: the processes are killed, their folder is removed.
        let mut stopped = interrupts();
        tokio::select! {
            biased;
            _ = stopped.recv() => Ok(ExitCode::Interrupted),
            done = run(args.output.quiet) => done,
        }
    }))
}

/// The processes; those that are left go when the demo does, however it ends.
struct Fleet(Vec<(Place, Child)>);

impl Fleet {
    /// `kill -9`.
    fn kill(&mut self, node: NodeId) -> Option<String> {
        let at = self.0.iter().position(|(place, _)| place.node == node)?;
        let (place, mut child) = self.0.remove(at);
        child.kill().ok()?;
        let _ = child.wait();
        Some(place.name)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn run(quiet: bool) -> Result<ExitCode, Failure> {
    let say = |text: &str| {
        if !quiet {
            print::line(text);
        }
    };
    let config =
        TargetConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..TargetConfig::default() };
    let target = Target::start(config).map_err(Failure::failed)?;
    let folder = std::env::temp_dir().join(format!("volley-demo-{}", std::process::id()));
    let home = Home { folder, keep: false };
    let local = LocalCluster::create(&home.folder, 3, WORKERS).map_err(Failure::failed)?;
    let mut fleet = Fleet(spawn(SHAPE, &local)?);
    let file = ClientFile { managers: local.addresses(), certs: local.client.clone() };
    let ready = until_ready(&file, WORKERS as u32).await?;
    say(&format!(
        "Three managers and {WORKERS} workers, each a process of its own, are ready after {:.1} s.\n\
         The plan: {RATE} requests a second for {LENGTH_S} s, divided over the workers.\n",
        ready.as_secs_f64()
    ));
    let client = connect(&file).await?;
    let job = submit(&client, &home, &target).await?;
    say(&format!("job {job} accepted\n\n  second  requests/s"));
    let result = follow(&client, client.watch(job, false), job, &mut fleet, &say).await?;
    Nodes::Processes(std::mem::take(&mut fleet.0)).end().await;
    let seen = target.stop().total;
    Ok(conclude(&result, seen, quiet))
}

async fn submit(
    client: &FleetClient,
    home: &Home,
    target: &RunningTarget,
) -> Result<JobId, Failure> {
    let text = format!(
        "name: demo\ntarget: http://{}\nworkflows:\n  - name: visit\n    priority: high\n    load: {{ executor: \
         constant-arrival-rate, rate: {RATE}/s, duration: {LENGTH_S}s, max_vus: 300 }}\n    steps: [ {{ name: home, \
         get: / }} ]\n",
        target.addr()
    );
    let path = home.folder.join("demo.yaml");
    std::fs::write(&path, text).map_err(|error| Failure::failed(error).at(path.display()))?;
    let none = |_: &str| None;
    let bundle = pack_plan(&path, &ReadOptions::new(&none), Policy::default());
    let (_, bundle) = bundle.map_err(Failure::failed)?;
    let bytes = bundle.encode().map_err(Failure::failed)?;
    let stored = client.put(bytes.into(), Arc::new(|_, _| {})).await.map_err(Failure::failed)?;
    let key = keys::draw().map_err(Failure::failed)?;
    let wish = Submission { key, name: bundle.name, bundle: stored, age: Duration::ZERO };
    let submitted = client.submit(&wish).await.map_err(Failure::failed)?;
    Ok(submitted.job)
}

/// Shows each second, and kills.
async fn follow(
    client: &FleetClient,
    mut watch: JobWatch,
    job: JobId,
    fleet: &mut Fleet,
    say: &impl Fn(&str),
) -> Result<RunResult, Failure> {
    let (mut second, mut counted, mut killed) = (0, 0, 0);
    loop {
        let told = watch.next().await.map_err(Failure::failed)?;
        match told {
            Some(WatchUpdate::Final(result)) => return Ok(*result),
            Some(WatchUpdate::Shown(Shown::Window { window, counted: new })) => {
                counted += new.requests;
                let now = (window.last + 1) / 10;
                if now > second {
                    let over = now - second;
                    let mark = if window.coalesced { "  (these seconds as one)" } else { "" };
                    say(&format!("  {now:>6}  {:>10}{mark}", counted / over));
                    (second, counted) = (now, 0);
                }
            }
            Some(WatchUpdate::Shown(Shown::Note(note))) => {
                say(&format!("          {}", note.event));
            }
            Some(WatchUpdate::Broken(broken)) => {
                say(&format!("          {}; the watch goes on elsewhere", broken.reason));
            }
            Some(WatchUpdate::Shown(_)) => {}
            None => return Err(Failure::failed("the watch has ended without a result")),
        }
        if killed == 0 && second >= WORKER_DIES {
            killed = 1;
            let worker = client.status(job).await.map_err(Failure::failed)?;
            let shards = worker.workflows.iter().flat_map(|workflow| &workflow.shards);
            let victim = shards.filter_map(|shard| shard.worker.parse().ok()).next();
            let name = victim.and_then(|node| fleet.kill(node)).unwrap_or_default();
            say(&format!("          kill -9: worker {name}, which runs a part of the load"));
        }
        if killed == 1 && second >= OWNER_DIES {
            killed = 2;
            let status = client.status(job).await.map_err(Failure::failed)?;
            let name =
                status.owner.parse().ok().and_then(|node| fleet.kill(node)).unwrap_or_default();
            say(&format!("          kill -9: manager {name}, which owns the job"));
        }
    }
}

fn conclude(result: &RunResult, seen: u64, quiet: bool) -> ExitCode {
    let completed = stats::totals::grand_total(&result.totals, &result.layout).requests;
    let cause = stats::DropCause::WorkerLost as usize;
    let lost: u64 = result.totals.blocks.iter().flatten().map(|block| block.dropped[cause]).sum();
    let planned = RATE * LENGTH_S;
    let fits = completed <= seen && seen <= planned;
    if !quiet {
        let outcome = format!("{:?}", result.outcome).to_uppercase();
        print::out(&format!(
            "\nThe job has ended: {outcome}, verdict {:?}\n\n  planned     {planned:>6}\n  \
             completed   {completed:>6}  what the result counts\n  seen        {seen:>6}  what the target counted\n  \
             dropped     {lost:>6}  due while their worker was dead: said, not hidden\n\n",
            result.verdict.state
        ));
        for reason in &result.verdict.reasons {
            print::line(&format!("  - {reason}"));
        }
        print::line(match fits {
            true => "\nNothing ran twice: completed <= seen, and no more was seen than planned.",
            false => "\nThis does not add up. Please report it.",
        });
        print::line(
            "Next: `volley up`, then `volley submit plan.yaml --watch` in another terminal.",
        );
    }
    if fits { ExitCode::Passed } else { ExitCode::Failed }
}
