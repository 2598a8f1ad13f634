//! `volley manager` and `volley worker`: one node, until a signal ends it.

mod alone;
mod folder_checks;

use std::fmt::Display;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use fleet::manager::{
    AskedLimits, Ended, KEEP_JOBS, KEEP_JOBS_MIN, Manager, ManagerConfig, keeping,
};
use fleet::worker::{Worker, WorkerConfig};
use node::config::{Config, CredentialFiles};
use node::http::HttpConfig;
use node::secret::GossipKey;
use report::ExitCode;
use tokio::sync::mpsc;
use trust::{Gates, Role};

use self::alone::say_if_alone;
use self::folder_checks::{check_data, in_each_others_way, not_ours};
use super::certs::folder::{self, GOSSIP_FILE};
use super::reach::{Reach, reach};
use crate::cli::{ManagerArgs, NodeArgs, WorkerArgs};
use crate::failure::{Failure, Threads, block_on, told};
use crate::{log, print, restart, signals};

/// How long a farewell and the end of all tasks may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// None of openraft's own words: it warns of everything that an election overtakes, and of every
/// heartbeat to a member that is down. What matters is said by the ledger. Who has become a worker,
/// and who changes what runs, is said always.
pub const QUIET: &str = "warn,openraft=off,enrol=info,steering=info";

/// What every member of a cluster is started with. `roles`: those that its certificate may be for;
/// none: any.
pub async fn config(args: &NodeArgs, certs: &Path, roles: &[Role]) -> Result<Config, Failure> {
    let files = folder::find(certs)?;
    folder::must_be(certs, &files, roles)?;
    folder::warn_if_readable(&files);
    let key_file = certs.join(GOSSIP_FILE);
    let key = GossipKey::load(&key_file).map_err(|error| {
        Failure::failed(error).help(
            "the gossip key is in the CA's folder and comes with `volley certs issue`; all members \
             need the same",
        )
    })?;
    let trust::Files { certificate, key: private, ca } = files;
    let credentials = CredentialFiles { certificate, key: private, ca };
    let mut config = Config::new(args.data.clone(), credentials, key);
    let Reach { bind, advertise } = reach(args).await?;
    (config.bind, config.advertise) = (bind, advertise);
    config.operators = args.operators.iter().copied().collect();
    config.gates = if args.gates { Gates::Configured } else { Gates::None };
    config.pace = args.pace;
    config.http =
        args.metrics.map(|bind| HttpConfig { bind, beyond_loopback: args.metrics_beyond_loopback });
    for seed in &args.seeds {
        config.seed(seed).map_err(|error| Failure::invalid(format!("--seed {error}")))?;
    }
    for name in &args.names {
        config.name(name).map_err(|error| Failure::invalid(format!("--dns {error}")))?;
    }
    Ok(config)
}

/// A node that must not be started again; the code says so to whoever supervises it.
fn refused(error: &impl Display) -> Failure {
    Failure::new(ExitCode::NodeRefused, error)
}

/// Why a member did not start: the exit code says whether starting it again can help.
fn of_member_start(error: &node::StartError) -> Failure {
    use node::StartError;
    use node::identity::IdentityError;
    match error {
        StartError::Identity(IdentityError::Io { path, error: io })
            if io.kind() == ErrorKind::PermissionDenied =>
        {
            Failure::failed(error).help(not_ours(path))
        }
        StartError::Listen { address, error: io, .. } if io.kind() == ErrorKind::AddrInUse => {
            Failure::failed(error).help(format!(
                "another process has port {}; a manager takes two ports, its own and the next for its ledger. Give \
                 another with --bind",
                address.port()
            ))
        }
        StartError::Identity(IdentityError::InUse { .. } | IdentityError::Io { .. })
        | StartError::Listen { .. }
        | StartError::Resolver { .. }
        | StartError::Random => Failure::failed(error),
        StartError::Credentials(_)
        | StartError::Identity(_)
        | StartError::Secret(_)
        | StartError::NotAMember { .. }
        | StartError::OtherNode { .. } => refused(error),
        StartError::NoAddress { .. }
        | StartError::Pace { .. }
        | StartError::HttpBeyondLoopback { .. } => Failure::invalid(error),
    }
}

fn of_member_end(end: &node::End) -> Failure {
    match end {
        node::End::DataLost { .. } | node::End::Superseded { .. } => refused(end),
        node::End::Task(_) => Failure::failed(end),
    }
}

fn of_manager_start(error: &fleet::manager::StartError) -> Failure {
    use fleet::manager::StartError;
    match error {
        StartError::Certificate(_) | StartError::Ca(_) | StartError::Foreign(_) => refused(error),
        // Damaged; it is left as it is.
        StartError::Storage(_) => Failure::new(ExitCode::DiskRefused, error),
        StartError::Member(member) => of_member_start(member),
        StartError::Folder(_) | StartError::Ledger(_) | StartError::Random => {
            Failure::failed(error)
        }
    }
}

fn of_worker_start(error: &fleet::worker::StartError) -> Failure {
    use fleet::worker::StartError;
    match error {
        StartError::Member(member) => of_member_start(member),
        StartError::NotAWorker(_) => refused(error),
        StartError::Settings(_) => Failure::invalid(error),
        StartError::Files { .. } => Failure::failed(error),
    }
}

/// Runs a node on threads of its own; a worker's load has others.
fn serve(running: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    log::to_stderr(QUIET);
    engine::machine::raise_descriptor_limit();
    told(block_on(Threads::Two, running))
}

/// Every signal as a message.
pub fn interrupts() -> mpsc::UnboundedReceiver<()> {
    let (stop, stopped) = mpsc::unbounded_channel();
    signals::on_interrupt(move || {
        if stop.send(()).is_err() {
            // Already on the way out, and asked again.
            std::process::exit(ExitCode::Interrupted.number());
        }
    });
    stopped
}

pub fn manager(args: &ManagerArgs) -> ExitCode {
    if args.restart && !restart::is_child() {
        return restart::run();
    }
    serve(run_manager(args))
}

async fn manager_config(args: &ManagerArgs) -> Result<ManagerConfig, Failure> {
    let own = args.node.advertise.clone().unwrap_or(args.node.bind().into());
    if own.port() == 0 && !args.peers.is_empty() {
        let what = "managers that know each other need fixed ports: give --bind one";
        return Err(Failure::invalid(what));
    }
    if !args.peers.is_empty() && !args.peers.contains(&own) {
        let what = format!("--peers lists all managers, this one included: {own} is missing");
        return Err(Failure::invalid(what).help("--advertise says which of them it is"));
    }
    if let Some((one, other)) = in_each_others_way(&args.peers) {
        let what = format!(
            "--peers has {one} and {other}, and {other} is the port of the first one's ledger: each manager takes two"
        );
        return Err(Failure::invalid(what).help("leave a port free between them"));
    }
    if args.join_group && args.node.seeds.is_empty() && args.node.names.is_empty() {
        let what = "--join-group needs to know where the others are: --seed or --dns";
        return Err(Failure::invalid(what));
    }
    let mut config = ManagerConfig::new(config(&args.node, &args.certs, &[Role::Manager]).await?);
    config.reached_at.clone_from(&args.node.advertise);
    if args.peers.len() > 1 {
        let ledgers = args.peers.iter().map(|peer| fleet::local::ledger_of(peer).to_string());
        config.founders = ledgers.collect();
        config.member.seeds.extend(args.peers.iter().filter(|peer| **peer != own).cloned());
    }
    config.join = args.join_group;
    if args.keep_jobs.is_some_and(|keep| keep < KEEP_JOBS_MIN) {
        let why = "clients may still ask again what became of a submission";
        let minutes = KEEP_JOBS_MIN.as_secs() / 60;
        let what = format!("--keep-jobs is at least {minutes} minutes: {why}");
        return Err(Failure::failed(what));
    }
    config.state_limits = keeping(args.keep_jobs.unwrap_or(KEEP_JOBS));
    config.asked = AskedLimits { lease: args.lease, keep_jobs: args.keep_jobs };
    if let Some(lease) = args.lease {
        config.settings.lease = fence::LeaseTerms::new(lease);
    }
    config.ca.clone_from(&args.ca);
    config.worker_days = args.worker_days;
    Ok(config)
}

async fn run_manager(args: &ManagerArgs) -> Result<ExitCode, Failure> {
    let mut stopped = interrupts();
    let starting = async {
        check_data(&args.node.data, Role::Manager)?;
        let config = manager_config(args).await?;
        Manager::start(config).await.map_err(|error| of_manager_start(&error))
    };
    let manager = tokio::select! {
        biased;
        _ = stopped.recv() => return Ok(ExitCode::Interrupted),
        started = starting => started?,
    };
    let member = manager.member();
    print::line(&format!(
        "{} (start {}) listens on {}; Ctrl-C gives its jobs to others and ends",
        member.identity(),
        member.life().boot,
        member.address()
    ));
    if let Some(address) = member.http_address() {
        print::line(&format!("metrics on http://{address}/metrics"));
    }
    if args.join_group && manager.ledger().is_some_and(|ledger| ledger.group.is_none()) {
        let at = args.node.advertise.clone().unwrap_or(member.address().into());
        print::line(&format!(
            "waits to be let in: `volley managers add {at}`, asked of one of the others"
        ));
    }
    let own = args.node.advertise.clone().unwrap_or(args.node.bind().into());
    let peers = args.peers.iter().filter(|peer| **peer != own);
    let others = peers.map(ToString::to_string).chain(args.node.seeds.iter().cloned()).collect();
    let ended = tokio::select! {
        biased;
        _ = stopped.recv() => None,
        ended = manager.ended() => Some(ended),
        never = say_if_alone(member, others, false) => match never {},
        () = say_who_leads(&manager) => None,
    };
    match ended {
        None | Some(Ended::Drained) => {}
        Some(Ended::Member(end)) => return Err(of_member_end(&end)),
        Some(ended @ Ended::Disk(_)) => {
            return Err(Failure::new(ExitCode::DiskRefused, ended));
        }
        Some(ended @ Ended::Ledger(_)) => return Err(Failure::failed(ended)),
    }
    // From here on the next signal ends at once.
    drop(stopped);
    print::line("giving its jobs to the others");
    match manager.leave(FAREWELL).await {
        Ok(()) => print::line("left"),
        Err(unfinished) => eprintln!("volley: {unfinished}"),
    }
    Ok(ExitCode::Passed)
}

/// A line whenever who leads has changed.
async fn say_who_leads(manager: &Manager) {
    let mut last = String::new();
    loop {
        let Some(status) = manager.ledger() else { return };
        let now = match (&status.waiting_for, &status.leader) {
            (Some(what), _) => what.clone(),
            (None, _) if status.leads => format!("leads, term {}", status.term),
            (None, Some((id, _))) if *id != status.node => {
                format!("follows {id}, term {}", status.term)
            }
            (None, _) => {
                "nobody leads: jobs wait until a majority of the managers is there".to_owned()
            }
        };
        if now != last {
            print::line(&now);
            last = now;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// As many as this machine has.
pub fn all_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

pub fn worker(args: &WorkerArgs) -> ExitCode {
    if args.restart && !restart::is_child() {
        return restart::run();
    }
    serve(run_worker(args))
}

async fn run_worker(args: &WorkerArgs) -> Result<ExitCode, Failure> {
    let mut stopped = interrupts();
    let (cores, here) = (args.cores.unwrap_or_else(all_cores), all_cores());
    if cores > here {
        eprintln!(
            "volley: {cores} cores are offered, and this machine has {here}: its shards will be in each other's way"
        );
    }
    let starting = async {
        check_data(&args.node.data, Role::Worker)?;
        let config = super::join::worker_config(args, cores).await?;
        let started = Worker::start(WorkerConfig::new(config, cores)).await;
        started.map_err(|error| of_worker_start(&error))
    };
    let worker = tokio::select! {
        biased;
        _ = stopped.recv() => return Ok(ExitCode::Interrupted),
        started = starting => started?,
    };
    let member = worker.member();
    print::line(&format!(
        "{} (start {}) listens on {} with {}; Ctrl-C drains it, twice stops it",
        member.identity(),
        member.life().boot,
        member.address(),
        report::format::plural(u64::from(cores), "core")
    ));
    if let Some(address) = member.http_address() {
        print::line(&format!("metrics on http://{address}/metrics"));
    }
    let others = args.node.seeds.iter().chain(&args.join).cloned().collect();
    tokio::select! {
        biased;
        never = say_if_alone(member, others, args.node.names.is_empty()) => match never {},
        ended = until_ended(&worker, &mut stopped) => ended?,
    }
    drop(stopped);
    worker.shutdown(FAREWELL).await;
    print::line("left");
    Ok(ExitCode::Passed)
}

/// Until the worker has drained, or was told a second time to stop.
async fn until_ended(
    worker: &Worker,
    stopped: &mut mpsc::UnboundedReceiver<()>,
) -> Result<(), Failure> {
    let mut asked = false;
    loop {
        tokio::select! {
            biased;
            _ = stopped.recv() => {
                if asked {
                    return Ok(());
                }
                asked = true;
                let shards = worker.figures().shards;
                print::line(&format!("draining: {shards} shards run; once more stops them"));
                worker.drain();
            }
            ended = worker.ended() => match ended {
                fleet::worker::End::Drained => {
                    print::line("drained");
                    return Ok(());
                }
                fleet::worker::End::Member(end) => return Err(of_member_end(&end)),
                ended @ fleet::worker::End::Broken(_) => return Err(Failure::failed(ended)),
            },
        }
    }
}
