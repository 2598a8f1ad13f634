//! Starting a member: the parts are put together, the tasks begin, the server listens.

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::{FutureExt, StreamExt};
use ledger_state::SessionId;
use openraft::storage::RaftLogStorage;
use openraft::{Config as RaftConfig, SnapshotPolicy};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};
use tonic::transport::Server;

use crate::config::{ConfigError, NodeConfig};
use crate::core::{Core, kibibytes};
use crate::metrics::Metrics;
use crate::network::{Links, Network};
use crate::node::Node;
use crate::observer::{Nobody, Observer};
use crate::peers::Peers;
use crate::requests::Requests;
use crate::service::Service;
use crate::silence::{self, Silence};
use crate::standing::Standing;
use crate::store::Storage;
use crate::timekeeper::LedgerClock;
use crate::transport::{Incoming, Transport};
use crate::types::Raft;
use crate::wire::End;
use crate::wire::proto::ledger_server::LedgerServer;
use crate::{bootstrap, driver, housekeeping, proposals};

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    Config(ConfigError),
    Listen { address: String, error: io::Error },
    Raft(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Raft(error) => write!(f, "Raft does not start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Node {
    /// Starts a member on its storage. It serves when this returns; whether it belongs to a group
    /// by then depends on [`NodeConfig::bootstrap`].
    pub async fn start(
        config: NodeConfig,
        storage: Storage,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, StartError> {
        Self::start_observed(config, storage, transport, Arc::new(Nobody)).await
    }

    /// As [`Node::start`], with somebody who watches.
    pub async fn start_observed(
        config: NodeConfig,
        storage: Storage,
        transport: Arc<dyn Transport>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, StartError> {
        config.check().map_err(StartError::Config)?;
        let timing = config.timing.scaled();
        let here = config.listen.as_ref().unwrap_or(&config.address);
        let incoming = transport
            .listen(here)
            .await
            .map_err(|error| StartError::Listen { address: here.clone(), error })?;

        let identity = storage.identity();
        let me = End { node: identity.node, disk: identity.disk };
        let session = SessionId { node: identity.node, boot: identity.boot };
        let metrics = Arc::new(Metrics::default());
        let (group, group_seen) = watch::channel(identity.group);
        let (standing_sender, standing) = watch::channel(Standing::new(me.node));
        let links = Arc::new(Links {
            me,
            group: group_seen.clone(),
            peers: Peers::new(
                transport,
                timing.clone(),
                config.limits.clone(),
                Arc::clone(&metrics),
            ),
            message_bytes: config.limits.message_bytes,
            backoff: timing.heartbeat,
            snapshot_within: timing.snapshot,
            metrics: Arc::clone(&metrics),
            state_limits: storage.limits().map_or_else(OnceLock::new, OnceLock::from),
            silence: Silence::new(&timing),
            standing: OnceLock::from(standing.clone()),
        });

        let raft_error = |error: &dyn fmt::Display| StartError::Raft(error.to_string());
        let mut log = storage.log_store();
        let last = log.get_log_state().await.map_err(|error| raft_error(&error))?.last_log_id;
        let vote = log.read_vote().await.map_err(|error| raft_error(&error))?;
        let led = vote
            .filter(|vote| vote.is_committed() && vote.leader_id().voted_for() == Some(me.node));
        let restarted_at = led.zip(last).map(|(vote, last)| (vote, last.index));
        let raft_config = raft_config(&config, &timing)?;
        let raft = Raft::new(
            me.node,
            Arc::new(raft_config),
            Network(Arc::clone(&links)),
            log,
            storage.state_machine(),
        )
        .await
        .map_err(|error| raft_error(&error))?;

        let started = tokio::time::Instant::now();
        let uptime = config.uptime;
        let uptime = move || uptime.map_or_else(|| started.elapsed(), |uptime| uptime());
        let time = Arc::new(LedgerClock::new(config.time_noted, uptime));
        let leading = proposals::Leading {
            me: me.node,
            raft: raft.clone(),
            patience: timing.election_max,
            standing: standing.clone(),
            group: group_seen,
            applied: storage.shared(),
            time: Arc::clone(&time),
        };
        let (queue, batcher) =
            proposals::queue(leading, config.limits.clone(), Arc::clone(&metrics));
        let (election, election_events) = mpsc::channel(256);
        let core = Arc::new(Core {
            me,
            session,
            peers_digest: bootstrap::digest(&config.bootstrap),
            applied: storage.shared(),
            blobs: storage.blobs(),
            raft,
            links,
            group,
            standing,
            election,
            asking: AtomicBool::new(false),
            slack_ms: AtomicU64::new(0),
            heard: Mutex::new(None),
            queue,
            requests: Mutex::new(Requests::new(session, config.limits.open_requests)),
            session_open: tokio::sync::Mutex::new(false),
            changing: tokio::sync::Mutex::new(()),
            adopting: tokio::sync::Mutex::new(()),
            clock: Mutex::new(Core::clock(
                me.node,
                storage.recovered().wal.max_hlc.unwrap_or_default(),
            )),
            time,
            metrics,
            observer,
            failed: watch::Sender::new(None),
            stopping: watch::Sender::new(false),
            waiting: watch::Sender::new(Some("starting".to_owned())),
            incoming: Semaphore::new(kibibytes(config.limits.incoming_bytes as u64) as usize),
            restarted_at,
            storage: Arc::new(storage),
            timing,
            config,
        });

        let mut tasks = JoinSet::new();
        let c = || Arc::clone(&core);
        tasks.spawn(watched(c(), "batches", batcher.run()));
        tasks.spawn(watched(c(), "pulse", driver::pulse(c(), standing_sender)));
        tasks.spawn(watched(c(), "silence", silence::run(c())));
        tasks.spawn(watched(c(), "elections", driver::elections(c(), election_events)));
        tasks.spawn(watched(c(), "bootstrap", bootstrap::run(c())));
        tasks.spawn(watched(c(), "time", housekeeping::advance(c())));
        tasks.spawn(watched(c(), "housekeeping", housekeeping::tidy(c())));
        tasks.spawn(watched(c(), "last word", driver::leave_when_failed(c())));
        if core.observer.wants_digests() {
            tasks.spawn(watched(c(), "digests", driver::digests(c())));
        }
        // Not one of the tasks that are cut off: it ends by itself, and closes its connections in
        // order.
        tokio::spawn(serve(Arc::clone(&core), incoming));
        tracing::info!(node = %me.node, address = core.config.address, "a ledger node has started");
        Ok(Self { core, tasks: Some(tasks) })
    }
}

/// A node with a task missing would only look alive.
async fn watched(core: Arc<Core>, name: &str, task: impl Future<Output = ()> + Send) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        core.fail(&format!("the task `{name}` has panicked"));
    }
}

fn raft_config(
    config: &NodeConfig,
    timing: &crate::config::Timing,
) -> Result<RaftConfig, StartError> {
    let ms = |time: Duration| (time.as_millis() as u64).max(1);
    let limits = &config.limits;
    RaftConfig {
        cluster_name: "ledger".to_owned(),
        heartbeat_interval: ms(timing.heartbeat),
        election_timeout_min: ms(timing.election_min),
        election_timeout_max: ms(timing.election_max),
        install_snapshot_timeout: ms(timing.snapshot),
        max_payload_entries: limits.append_entries,
        replication_lag_threshold: limits.snapshot_entries.max(limits.keep_entries) * 2,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(limits.snapshot_entries),
        max_in_snapshot_log_to_keep: limits.keep_entries,
        // Elections are driven from outside, with pre-votes.
        enable_elect: false,
        ..RaftConfig::default()
    }
    .validate()
    .map_err(|error| StartError::Raft(error.to_string()))
}

/// Connections that were not accepted: a storm of them is one line in the log now and then.
#[derive(Default)]
struct Refusals(Mutex<(Option<Instant>, u64)>);

/// How often they are logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

impl Refusals {
    fn note(&self, why: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.0.is_some_and(|at| at.elapsed() < LOG_EVERY) {
            noted.1 += 1;
            return;
        }
        let (_, others) = std::mem::replace(&mut *noted, (Some(Instant::now()), 0));
        tracing::warn!(others, "a connection was not accepted: {why}");
    }
}

/// Serves until the node stops.
async fn serve(core: Arc<Core>, incoming: Incoming) {
    let limits = core.config.limits.clone();
    let timing = core.timing.clone();
    let mut stopping = core.stopping.subscribe();
    let service = LedgerServer::new(Service(Arc::clone(&core)))
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(limits.message_bytes);
    let places = Arc::new(Semaphore::new(limits.connections));
    let refusals = Refusals::default();
    // A failed accept is one connection, not the server; the pause keeps a lack of descriptors from
    // spinning.
    let incoming = incoming.filter_map(|accepted| async {
        match accepted {
            Ok(io) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => Some(Ok::<_, io::Error>(io.in_place(place))),
                Err(_) => {
                    let limit = limits.connections;
                    refusals.note(&format!("there are {limit} connections already"));
                    None
                }
            },
            Err(error) => {
                refusals.note(&error.to_string());
                sleep(Duration::from_millis(20)).await;
                None
            }
        }
    });
    let served = Server::builder()
        .concurrency_limit_per_connection(limits.calls_per_connection)
        .max_concurrent_streams(limits.calls_per_connection as u32)
        .timeout(timing.snapshot)
        .http2_keepalive_interval(Some(timing.keepalive))
        .http2_keepalive_timeout(Some(timing.keepalive_timeout))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .serve_with_incoming_shutdown(service, incoming, async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        })
        .await;
    if let Err(error) = served {
        core.fail(&format!("the server has stopped: {error}"));
    }
}
