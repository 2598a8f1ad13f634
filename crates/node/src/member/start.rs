//! Starting a member: who am I, may I be it, listen, gossip, serve, search.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use membership::agent::{Agent, AgentConfig};
use membership::discovery::{
    self, Answer, Bootstrap, LookupError, Me, Question, Resolver, Seed, SystemResolver,
};
use membership::health::Tracker;
use membership::{Peer, Role};
use rand010::SeedableRng;
use rand010::rngs::StdRng;
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::service::Routes;
use tonic::transport::Server;
use trust::{Identity, Policy};
use wal::{Disk, RealDisk};

use super::deadline::Deadlines;
use super::search::NodeDialer;
use super::{
    EXCHANGES_MAX, Inner, Known, KnownNodes, Member, Search, StartError, doubt, exchange, follow,
    peers, pulse,
};
use crate::config::Config;
use crate::identity::{Life, NodeFolder};
use crate::network::{
    ChannelTiming, Channels, Connection, Listener, Mutual, Network, Reloads, watch_credentials,
};
use crate::numbers::Numbers;
use crate::platform::{Host, Platform};
use crate::service::{Service, WATCHES_MAX};
use crate::supervise::{OnEnd, Supervisor};
use crate::wire::proto::membership_server::MembershipServer;
use crate::{http, secret};

/// Events of the node table that wait for discovery; the table is the truth, so the sender waits
/// when it is full.
const EVENTS_MAX: usize = 256;
/// How often a free pair of ports (TCP and UDP) is looked for.
const PORT_TRIES: usize = 32;
/// Calls that are served at once on one connection; the others wait.
const CALLS_PER_CONNECTION: usize = 64;
/// A call that has no answer by then is ended. Streams begin to answer at once and go on.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// A connection is made anew after this, so that certificates that have run out or were changed are
/// looked at again.
const CONNECTION_AGE: Duration = Duration::from_secs(3600);

/// Where the random streams of one member begin.
const GOSSIP: u8 = 1;
const SEARCH: u8 = 2;
const ANTI_ENTROPY: u8 = 3;
const FOLDER: u8 = 4;

impl Member {
    /// Starts a member with the certificates of its configuration, on TCP and UDP. It serves and
    /// gossips when this returns; finding the others goes on beside.
    ///
    /// # Errors
    /// With what is wrong, before anything was written over.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let platform = Platform::of_this_machine(&config)?;
        Self::start_on(config, platform).await
    }

    /// The same on a platform that is handed in.
    ///
    /// # Errors
    /// As [`Member::start`].
    pub async fn start_on(mut config: Config, platform: Platform) -> Result<Self, StartError> {
        let Platform { identity, network, disk, host } = platform;
        config.report.get_or_insert_with(|| host.vitals(identity.role));
        check(&config, &identity)?;
        let number = |stream| config.entropy.number(stream).map_err(|_| StartError::Random);
        let (life, folder) = match config.life {
            Some(life) if life.node != identity.node => {
                let (given, certificate) = (life.node, identity.node);
                return Err(StartError::OtherNode { given, certificate });
            }
            Some(life) => {
                disk.create_folder(&config.data).map_err(|error| data_error(&config, error))?;
                (life, None)
            }
            None => {
                let drawn = number(FOLDER)?;
                let folder = NodeFolder::open(&disk, &config.data, identity.node, drawn)?;
                (folder.life(), Some(folder))
            }
        };
        let remembered = peers::load(disk.as_ref(), &config.data);
        let resolver = resolver(&config)?;
        let seeds = Seeds {
            search: number(SEARCH)?,
            anti_entropy: config.entropy.seed(ANTI_ENTROPY).map_err(|_| StartError::Random)?,
        };
        let http_listener = match &config.http {
            Some(http) => Some(http::bind(http).await?),
            None => None,
        };
        let (listener, agent, address) =
            listen(&config, &identity, life, network.as_ref(), disk.as_ref()).await?;

        let nodes_max = config.membership().nodes_max;
        let mut known = KnownNodes::new(nodes_max);
        for peer in &remembered {
            known.note(peer.node, Known { boot: peer.boot, folder: peer.folder, disk: 0 });
        }
        let channels =
            Channels::new(Arc::clone(&network), ChannelTiming::paced(config.pace.max(1.0)));
        let inner = Arc::new(Inner {
            channels,
            agent,
            address,
            life,
            disk,
            network,
            supervisor: Supervisor::default(),
            numbers: Numbers::default(),
            reloads: Arc::new(Reloads::default()),
            nodes_max,
            known: Mutex::new(known),
            hellos: Mutex::new(BTreeMap::new()),
            paces: Mutex::new(BTreeSet::new()),
            health: Mutex::new(Tracker::default()),
            assessments: Mutex::new(BTreeMap::new()),
            search: watch::Sender::new(Search::default()),
            group: watch::Sender::new(config.group),
            synced: watch::Sender::new(false),
            leaving: watch::Sender::new(false),
            end: watch::Sender::new(None),
            doubt: watch::Sender::new(None),
            exchanges: Arc::new(Semaphore::new(EXCHANGES_MAX)),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            keys: tokio::sync::Mutex::new(()),
            identity,
            config,
        });
        let remembered = peers::addresses(&remembered, inner.identity.role);
        spawn_tasks(&inner, listener, resolver, remembered, seeds);
        let http = http_listener.map(|(listener, address)| {
            http::serve(&inner, listener);
            address
        });
        let Life { node, boot, .. } = life;
        tracing::info!(%node, %boot, role = %inner.identity.role, %address, "a member has started");
        Ok(Self { inner, http, folder: Mutex::new(folder) })
    }
}

impl Platform {
    /// Mutual TLS with the certificates of the configuration, on this machine's sockets and disk.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub fn of_this_machine(config: &Config) -> Result<Self, StartError> {
        let policy = Policy { gates: config.gates, expected: None };
        let network = Mutual::load(config.credentials.clone(), policy, config.limits)?;
        tighten(&config.data);
        let (identity, host) = (network.identity(), Host::Real);
        Ok(Self { identity, network: Arc::new(network), disk: Arc::new(RealDisk), host })
    }
}

/// What nodes keep in a data folder. Nothing else in it is touched: the folder is the operator's
/// choice.
const OURS: [&str; 11] = [
    crate::identity::FILE,
    crate::identity::LOCK,
    secret::RING_FILE,
    peers::FILE,
    "certs",
    "ledger",
    "checkpoints",
    "outbox",
    "issued",
    "blobs",
    "scratch",
];

/// Takes from others what an earlier program may have let them do with it.
fn tighten(data: &std::path::Path) {
    for name in OURS {
        let path = data.join(name);
        if let Err(error) = wal::tighten(&path) {
            tracing::warn!(path = %path.display(), %error, "others may be able to read this");
        }
    }
}

/// Where two of the random streams begin.
#[derive(Clone, Copy)]
struct Seeds {
    search: u64,
    anti_entropy: [u8; 32],
}

fn check(config: &Config, identity: &Identity) -> Result<(), StartError> {
    let role = identity.role;
    if super::roles_of_domain(role).is_empty() {
        return Err(StartError::NotAMember { role });
    }
    if !(config.pace.is_finite() && config.pace > 0.0) {
        return Err(StartError::Pace { pace: config.pace });
    }
    if config.advertise.is_none() && config.bind.ip().is_unspecified() {
        return Err(StartError::NoAddress { bind: config.bind });
    }
    Ok(())
}

fn resolver(config: &Config) -> Result<Arc<dyn Resolver>, StartError> {
    if let Some(resolver) = &config.resolver {
        return Ok(Arc::clone(resolver));
    }
    let is_name = |seed: &Seed| matches!(seed, Seed::Host { .. });
    if config.names.is_empty() && !config.seeds.iter().any(is_name) {
        // A machine without DNS settings can run a member that needs none.
        return Ok(Arc::new(NoNames));
    }
    let settings = config.discovery(Role::Manager);
    let resolver = SystemResolver::new(settings.dns.lookup_deadline);
    resolver
        .map(|resolver| Arc::new(resolver) as Arc<dyn Resolver>)
        .map_err(|error| StartError::Resolver { why: error.to_string() })
}

/// Where there are no names to ask for.
struct NoNames;

impl Resolver for NoNames {
    fn lookup<'a>(
        &'a self,
        _: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        Box::pin(async { Err(LookupError::NoSuchName) })
    }
}

/// Listens by TCP and UDP on the same port.
async fn listen(
    config: &Config,
    identity: &Identity,
    life: Life,
    network: &dyn Network,
    disk: &dyn Disk,
) -> Result<(Listener, Agent, SocketAddr), StartError> {
    let mut tries = if config.bind.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries -= 1;
        let failed = |what, address| move |error| StartError::Listen { address, what, error };
        let listener =
            network.listen(config.bind).await.map_err(failed("gRPC, TCP", config.bind))?;
        let bound = listener.address;
        let mut address = config.advertise.unwrap_or(bound);
        if address.port() == 0 {
            address.set_port(bound.port());
        }
        let peer =
            Peer { node: life.node, role: identity.role, address, boot: life.boot, generation: 0 };
        let rng = config.entropy.seed(GOSSIP).map_err(|_| StartError::Random)?;
        let starting = network.gossip(AgentConfig {
            identity: membership::Identity {
                peer,
                datacenter: identity.datacenter.clone(),
                domain: Inner::domain(identity),
            },
            bind: bound,
            ring: secret::open_ring(disk, &config.data, &config.gossip_key)?,
            settings: config.membership(),
            seeds: Vec::new(),
            rng: StdRng::from_seed(rng),
        });
        match starting.await {
            Ok(agent) => return Ok((listener, agent, address)),
            // The port was free for one protocol and not for the other.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            Err(error) => return Err(failed("gossip, UDP", bound)(error)),
        }
    }
}

fn spawn_tasks(
    inner: &Arc<Inner>,
    listener: Listener,
    resolver: Arc<dyn Resolver>,
    remembered: Vec<SocketAddr>,
    seeds: Seeds,
) {
    let run = &inner.supervisor;
    let mut incoming = Some(listener.incoming);
    let shared = Arc::clone(inner);
    run.spawn("grpc", OnEnd::Fatal, move |stop| {
        let (inner, incoming) = (Arc::clone(&shared), incoming.take());
        async move {
            if let Some(incoming) = incoming {
                serve(inner, incoming, stop).await;
            }
        }
    });
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let shared = Arc::clone(inner);
    run.spawn("table", OnEnd::Fatal, move |stop| {
        follow::run(Arc::clone(&shared), events.clone(), stop)
    });
    let (shared, mut inbox) = (Arc::clone(inner), Some(inbox));
    run.spawn("discovery", OnEnd::Fatal, move |stop| {
        let (inner, inbox) = (Arc::clone(&shared), inbox.take());
        search(inner, inbox, Arc::clone(&resolver), remembered.clone(), seeds.search, stop)
    });
    let shared = Arc::clone(inner);
    run.spawn("anti-entropy", OnEnd::Restart, move |stop| {
        exchange::anti_entropy(Arc::clone(&shared), seeds.anti_entropy, stop)
    });
    let shared = Arc::clone(inner);
    run.spawn("doubt", OnEnd::Restart, move |stop| doubt::run(Arc::clone(&shared), stop));
    let shared = Arc::clone(inner);
    run.spawn("heartbeat", OnEnd::Fatal, move |stop| pulse::run(Arc::clone(&shared), stop));
    let shared = Arc::clone(inner);
    run.spawn("peers", OnEnd::Restart, move |stop| peers::run(Arc::clone(&shared), stop));
    if inner.network.has_files() {
        let shared = Arc::clone(inner);
        run.spawn("certificates", OnEnd::Restart, move |stop| {
            let (network, reloads) = (Arc::clone(&shared.network), Arc::clone(&shared.reloads));
            watch_credentials(network, shared.config.reload_every, reloads, stop)
        });
    }
    let shared = Arc::clone(inner);
    run.spawn("gossip", OnEnd::Fatal, move |mut stop| {
        let inner = Arc::clone(&shared);
        async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = inner.agent.ended() => {}
            }
        }
    });
}

/// Looks for peers until told to stop.
async fn search(
    inner: Arc<Inner>,
    inbox: Option<mpsc::Receiver<discovery::Event>>,
    resolver: Arc<dyn Resolver>,
    remembered: Vec<SocketAddr>,
    seed: u64,
    mut stop: watch::Receiver<bool>,
) {
    let Some(inbox) = inbox else { return };
    let mut settings = inner.config.discovery(super::look_for(inner.identity.role));
    settings.remembered = remembered;
    let me = Me {
        identity: inner.identity.clone(),
        group: *inner.group.borrow(),
        addresses: vec![inner.address],
    };
    let machine = Bootstrap::new(me, settings, seed);
    let dialer = Arc::new(NodeDialer::new(&inner));
    let searching = discovery::run(
        machine,
        resolver,
        dialer,
        inbox,
        |notice| Search::note(&inner.search, &notice),
        |machine| Search::observe(&inner.search, machine),
    );
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => {}
        () = searching => {}
    }
}

/// Serves gRPC until told to stop.
async fn serve(
    inner: Arc<Inner>,
    incoming: futures_util::stream::BoxStream<'static, Connection>,
    mut stop: watch::Receiver<bool>,
) {
    let timing = ChannelTiming::paced(inner.config.pace.max(1.0));
    let service = MembershipServer::new(Service::new(Arc::clone(&inner)))
        .max_decoding_message_size(exchange::PART_BYTES_MAX)
        .max_encoding_message_size(exchange::PART_BYTES_MAX);
    let routes: Routes = inner.config.routes.clone().unwrap_or_default().add_service(service);
    let served = Server::builder()
        .concurrency_limit_per_connection(CALLS_PER_CONNECTION)
        .max_concurrent_streams(CALLS_PER_CONNECTION as u32)
        .http2_keepalive_interval(Some(timing.keepalive))
        .http2_keepalive_timeout(Some(timing.keepalive_timeout))
        .max_connection_age(CONNECTION_AGE)
        .layer(Deadlines { within: CALL_DEADLINE, long: inner.config.long_calls.clone() })
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming.map(Ok::<_, io::Error>), async move {
            let _ = stop.wait_for(|stop| *stop).await;
        })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the gRPC server has ended");
    }
}

fn data_error(config: &Config, error: io::Error) -> StartError {
    let path = config.data.clone();
    StartError::Identity(crate::identity::IdentityError::Io { path, error })
}
