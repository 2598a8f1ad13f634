//! Starting and ending a manager.

use base::clock;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::{Hlc, NodeId};
use ledger::store::{Storage, StoreOptions, WalOwner};
use ledger::{Bootstrap, NodeConfig};
use membership::heartbeat::{Beat, ManagerBeat, Overload, Stage, Work};
use node::identity::Life;
use node::network::LedgerTransport;
use node::supervise::{OnEnd, Unfinished};
use node::vitals::Vitals;
use node::{End, Host, Member, Platform};
use tokio::sync::watch;
use tonic::service::Routes;
use trust::Role;

use super::breakers::Breakers;
use super::checkpoints::CheckpointStore;
use super::config::{AskedLimits, ManagerConfig};
use super::{
    Parts, Shared, breakers, claims, enrolment, jobs, manager_peers, time, transfers,
    worker_reports,
};
use crate::wire::proto::enrolment_server::EnrolmentServer;
use crate::wire::proto::jobs_server::JobsServer;
use crate::wire::proto::manager_peers_server::ManagerPeersServer;
use crate::wire::proto::worker_reports_server::WorkerReportsServer;
use crate::wire::{MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX};

/// A public key with a number.
const ENLIST_BYTES_MAX: usize = 4096;

/// Why a manager did not start.
#[derive(Debug)]
pub enum StartError {
    Certificate(String),
    /// The CA with which it was to make workers.
    Ca(String),
    /// The ledger's folder.
    Storage(String),
    /// The folder is another node's.
    Foreign(String),
    Folder(io::Error),
    Member(node::StartError),
    Ledger(ledger::StartError),
    Random,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(why) | Self::Storage(why) | Self::Foreign(why) | Self::Ca(why) => {
                f.write_str(why)
            }
            Self::Folder(error) => write!(f, "the folder of checkpoints cannot be made: {error}"),
            Self::Member(error) => error.fmt(f),
            Self::Ledger(error) => error.fmt(f),
            Self::Random => f.write_str("this machine gives no random numbers"),
        }
    }
}

impl std::error::Error for StartError {}

/// Why a manager has to stop.
#[derive(Debug)]
pub enum Ended {
    /// `volley drain` was told to it.
    Drained,
    Member(End),
    Ledger(String),
    /// The ledger's disk has refused something: what is durable on it is not known before it is
    /// opened anew.
    Disk(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained => f.write_str("drained"),
            Self::Member(end) => end.fmt(f),
            Self::Ledger(why) | Self::Disk(why) => write!(f, "the ledger has stopped: {why}"),
        }
    }
}

/// A running manager. Dropping it is a crash.
pub struct Manager {
    shared: Arc<Shared>,
    member: Arc<Member>,
    /// None only while it ends.
    ledger: Option<ledger::Node>,
}

fn wall_ms() -> u64 {
    let since = clock::unix_now();
    super::millis(since)
}

fn storage(config: &ManagerConfig, platform: &Platform) -> Result<Storage, StartError> {
    let draw = || {
        let mut bytes = [0; 8];
        // A machine without random numbers was found out before, when its life was drawn.
        let _ = getrandom::fill(&mut bytes);
        u64::from_le_bytes(bytes)
    };
    let options = StoreOptions {
        node: Some(platform.identity.node),
        draw: Arc::new(draw),
        // The node puts its own id and count in; here only the time is known.
        clock: Arc::new(|| Hlc { wall_ms: wall_ms(), logical: 0, node: NodeId::default() }),
        wal: wal::Options::default(),
        blobs: config.blobs,
        snapshot_bytes: 1 << 30,
    };
    let folder = config.member.data.join("ledger");
    crate::private_folder(&folder).map_err(StartError::Folder)?;
    let owner = match platform.host {
        Host::Real => WalOwner::Thread,
        Host::Simulated => WalOwner::Task,
    };
    let opened = Storage::open(Arc::clone(&platform.disk), folder, options, owner);
    opened.map_err(|error| match error {
        ledger::store::OpenError::OtherNode { folder, found, asked } => {
            let cluster = &platform.identity.cluster;
            StartError::Foreign(format!(
                "{} belongs to node {found}, and this certificate is of node {asked} in the cluster `{cluster}`: give \
                 each node, and each cluster, a data folder of its own (--data)",
                folder.display()
            ))
        }
        error => StartError::Storage(error.to_string()),
    })
}

/// Refuses another role's certificate, and one that says nobody.
fn check_certificate(config: &ManagerConfig) -> Result<(), StartError> {
    let path = &config.member.credentials.certificate;
    let facts = trust::show(path).map_err(|error| StartError::Certificate(error.to_string()))?;
    let first = facts.into_iter().next().map(|facts| facts.identity);
    let found = match first {
        Some(Ok(identity)) if identity.role == Role::Manager => return Ok(()),
        Some(Ok(identity)) => format!("is a {}'s", identity.role),
        Some(Err(error)) => format!("says nobody: {error}"),
        None => "is empty".to_owned(),
    };
    let why = format!("a manager needs a manager's certificate, and {} {found}", path.display());
    Err(StartError::Certificate(why))
}

impl Manager {
    /// Starts a manager: its membership, its member of the ledger, its services. It serves when
    /// this returns; whether anybody leads by then depends on the others.
    ///
    /// # Errors
    /// With what is wrong and what to do.
    pub async fn start(config: ManagerConfig) -> Result<Self, StartError> {
        check_certificate(&config)?;
        let platform = Platform::of_this_machine(&config.member).map_err(StartError::Member)?;
        Self::start_on(config, platform).await
    }

    /// The same on a platform that is handed in.
    ///
    /// # Errors
    /// As [`Manager::start`].
    pub async fn start_on(
        mut config: ManagerConfig,
        platform: Platform,
    ) -> Result<Self, StartError> {
        getrandom::fill(&mut [0; 8]).map_err(|_| StartError::Random)?;
        let recruiter = enrolment::CertificateIssuer::open(&config, &platform.identity)?;
        let storage = storage(&config, &platform)?;
        let identity = storage.identity();
        let checkpoints = CheckpointStore::open(config.member.data.join("checkpoints"));
        let shared = Arc::new(Shared {
            host: platform.host,
            parts: Mutex::new(None),
            settings: config.settings,
            turns: config.turns,
            silent: config.silent,
            job_tasks: Mutex::new(BTreeMap::new()),
            breakers: Breakers::new(config.breaker),
            renewers: Mutex::default(),
            operators: config.member.operators.clone(),
            kept_by: Mutex::default(),
            undecided: Mutex::default(),
            checkpoints: checkpoints.map_err(StartError::Folder)?,
            transfers: transfers::Transfers::default(),
            leaving: watch::Sender::new(false),
            told_to_leave: watch::Sender::new(false),
        });
        let large = MESSAGE_BYTES_MAX;
        let jobs = JobsServer::new(jobs::Service(Arc::clone(&shared)));
        let worker_reports = WorkerReportsServer::new(worker_reports::Service(Arc::clone(&shared)));
        let job_task = ManagerPeersServer::new(manager_peers::Service(Arc::clone(&shared)));
        let enrolment =
            EnrolmentServer::new(enrolment::Service { shared: Arc::clone(&shared), recruiter });
        let routes = Routes::new(jobs.max_decoding_message_size(REQUEST_BYTES_MAX))
            .add_service(
                worker_reports.max_decoding_message_size(large).max_encoding_message_size(large),
            )
            .add_service(job_task.max_decoding_message_size(large).max_encoding_message_size(large))
            .add_service(enrolment.max_decoding_message_size(ENLIST_BYTES_MAX));
        config.member.routes = Some(routes);
        config.member.long_calls = vec![jobs::PUT_PATH];
        config.member.life = Some(Life::new(identity.node, identity.boot, identity.disk.0));
        config.member.group = identity.group;
        let reporter = Arc::downgrade(&shared);
        config.member.report = Some(Arc::new(move || {
            reporter.upgrade().map_or_else(nothing, |shared| vitals(&shared))
        }));
        let pace = config.member.pace;
        let member = Member::start_on(config.member.clone(), platform).await;
        let member = member.map_err(StartError::Member)?;
        let member = Arc::new(member);

        if config.member.bind.port() == 0 {
            config.member.bind.set_port(member.address().port());
        }
        let bootstrap = match (&config.founders[..], config.join) {
            (_, true) => Bootstrap::Join,
            ([], false) => Bootstrap::Alone,
            (founders, false) => Bootstrap::Peers(founders.to_vec()),
        };
        let mut ledger = NodeConfig {
            address: config.ledger_address(),
            listen: Some(config.ledger_listens()),
            bootstrap,
            state_limits: ledger_state::Limits {
                lease_ms: super::millis(config.settings.lease.length()),
                ..config.state_limits.clone()
            },
            uptime: Some(time::uptime),
            time_noted: time::noted(&config.member.data),
            ..NodeConfig::default()
        };
        ledger.timing.pace = pace;
        let transport = LedgerTransport::new(member.network(), Role::Manager);
        let ledger = ledger::Node::start(ledger, storage, Arc::new(transport));
        let ledger = ledger.await.map_err(StartError::Ledger)?;

        let parts = Parts { ledger: ledger.handle(), member: Arc::clone(&member) };
        *super::lock(&shared.parts) = Some(Arc::new(parts));
        let run = member.supervisor();
        let of = Arc::clone(&shared);
        run.spawn("claims", OnEnd::Fatal, move |stop| claims::run(Arc::clone(&of), stop));
        let (of, asked) = (Arc::clone(&shared), config.asked);
        run.spawn("limits", OnEnd::Done, move |stop| say_limits(Arc::clone(&of), asked, stop));
        let of = Arc::clone(&shared);
        run.spawn("group", OnEnd::Done, move |stop| say_group(Arc::clone(&of), stop));
        let of = Arc::clone(&shared);
        run.spawn("time", OnEnd::Restart, {
            let (of, data) = (Arc::clone(&shared), config.member.data.clone());
            move |stop| time::run(Arc::clone(&of), data.clone(), stop)
        });
        run.spawn("breakers", OnEnd::Restart, move |stop| breakers::run(Arc::clone(&of), stop));
        let of = Arc::clone(&shared);
        run.spawn("checkpoints", OnEnd::Restart, move |stop| claims::tidy(Arc::clone(&of), stop));
        Ok(Self { shared, member, ledger: Some(ledger) })
    }

    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The ledger's view of itself.
    #[must_use]
    pub fn ledger(&self) -> Option<ledger::NodeStatus> {
        self.ledger.as_ref().map(ledger::Node::status)
    }

    /// How many jobs it owns.
    #[must_use]
    pub fn jobs(&self) -> usize {
        super::lock(&self.shared.job_tasks).len()
    }

    /// Waits until it has to stop, and says why.
    pub async fn ended(&self) -> Ended {
        let mut told = self.shared.told_to_leave.subscribe();
        let ledger_failed = async {
            let Some(ledger) = &self.ledger else { return std::future::pending().await };
            let mut failed = ledger.failed();
            let why = failed.wait_for(Option::is_some).await;
            why.ok().and_then(|why| why.clone()).unwrap_or_default()
        };
        tokio::select! {
            biased;
            _ = told.wait_for(|told| *told) => Ended::Drained,
            end = self.member.ended() => Ended::Member(end),
            why = ledger_failed => match self.ledger.as_ref().is_some_and(ledger::Node::is_poisoned) {
                true => Ended::Disk(why),
                false => Ended::Ledger(why),
            },
        }
    }

    /// Gives its jobs up to the others, says goodbye, and ends. Running load is not touched.
    ///
    /// # Errors
    /// With the tasks that did not end in time.
    pub async fn leave(mut self, deadline: Duration) -> Result<(), Unfinished> {
        self.shared.leaving.send_replace(true);
        let until = tokio::time::Instant::now() + deadline / 2;
        while !super::lock(&self.shared.job_tasks).is_empty() && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let left = self.member.leave(deadline / 2).await;
        super::lock(&self.shared.parts).take();
        if let Some(ledger) = self.ledger.take() {
            ledger.shutdown().await;
        }
        left
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // The services hold what they share, and the member holds the services.
        super::lock(&self.shared.parts).take();
        super::lock(&self.shared.job_tasks).clear();
        self.member.cut_off();
    }
}

/// Limits are the cluster's (R25). Whoever is started with others hears that they do not count.
async fn say_limits(shared: Arc<Shared>, asked: AskedLimits, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        let Some(parts) = shared.parts() else { return };
        if parts.ledger.status().leader.is_none() {
            continue;
        }
        let read = parts.ledger.read(ledger::ReadLevel::Strong, Duration::from_secs(2), |state| {
            (state.limits().lease_ms, state.limits().kept_ms)
        });
        let Ok(read) = read.await else { continue };
        let (lease_ms, kept_ms) = read.value;
        let others =
            [("--lease", asked.lease, lease_ms), ("--keep-jobs", asked.keep_jobs, kept_ms)];
        for (flag, given, counts) in others {
            if let Some(given) = given.filter(|given| super::millis(*given) != counts) {
                tracing::warn!(
                    "{flag} is given as {given:?}, and the cluster goes by {:?}: the flag counts when a cluster is \
                     founded; `volley managers limits {flag} TIME` changes it for all managers",
                    Duration::from_millis(counts)
                );
            }
        }
        return;
    }
}

/// Others learn from our hello which group we belong to, once we do.
async fn say_group(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(parts) = shared.parts() else { return };
        if let Some(group) = parts.ledger.status().group {
            return parts.member.set_group(group);
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
}

fn nothing() -> Vitals {
    let beat = Beat::Manager(ManagerBeat::default());
    Vitals { stage: Stage::Active, overload: Overload::Healthy, work: Work::default(), beat }
}

/// What goes into the next heartbeat.
fn vitals(shared: &Shared) -> Vitals {
    let Some(parts) = shared.parts() else { return nothing() };
    let status = parts.ledger.status();
    let workers = shared.workers(&parts);
    let ready: Vec<_> = workers.iter().filter(|worker| worker.takes_work()).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let jobs = count(super::lock(&shared.job_tasks).len());
    let beat = Beat::Manager(ManagerBeat {
        accepting: !*shared.leaving.borrow() && status.leader.is_some(),
        is_leader: status.leads,
        has_quorum: status.leader.is_some(),
        term: status.term,
        workers: count(workers.len()),
        workers_healthy: count(ready.len()),
        cores_free: ready.iter().map(|worker| worker.free).sum(),
        cores: ready.iter().map(|worker| worker.total).sum(),
        jobs,
        workflows: 0,
    });
    let stage = if *shared.leaving.borrow() { Stage::Draining } else { Stage::Active };
    let work = Work { done: status.applied, runnable: 0 };
    Vitals { stage, overload: Overload::Healthy, work, beat }
}
