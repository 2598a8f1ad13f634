//! One node of a membership, whole: identity, network, gossip, discovery, exchange, heartbeat,
//! health, endpoints.
//!
//! ```text
//! search ─ probe, join ─▶ service of others        service ◀─ Hello, Exchange, Members, Keys ─ others, operators
//!    ▲                        │ pull first             │
//!    │ who is up              ▼                        ▼
//!  follow ◀── view ◀── membership::Agent (its own thread) ◀── heartbeat ◀── report of the role
//!    └─▶ health (three signals), peers (remembered for the next start)       anti-entropy every 30 s
//! ```
//!
//! A node that has joined says "syncing" in its heartbeat until it has pulled the whole state from
//! somebody, so nobody offers it anything before it knows whom it is among. A node that is alone
//! has nothing to pull.

mod deadline;
mod doubt;
mod end;
mod exchange;
mod follow;
mod known;
mod peers;
mod pulse;
mod search;
mod start;

pub(crate) use base::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::{GroupId, NodeId};
use membership::agent::{Agent, Stopped, View};
use membership::discovery::{Hello, formation};
use membership::envelope::Domain;
use membership::health::{Assessment, Tracker};
use membership::table::Missed;
use membership::{Change, Peer, Role};
use tokio::sync::{Semaphore, watch};
use trust::Identity;
use wal::Disk;

use crate::config::Config;
use crate::identity::{Life, NodeFolder};
use crate::network::{Channels, Network, Reloads};
use crate::numbers::Numbers;
use crate::secret::GossipKey;
use crate::supervise::{Supervisor, Unfinished};
use crate::wire::Introduction;

pub use end::{End, StartError};
pub use exchange::ExchangeError;
pub(crate) use exchange::{
    DEADLINE as EXCHANGE_DEADLINE, EXCHANGES_MAX, answer as answer_exchange, answer_compare, gather,
};
pub(crate) use known::{Known, KnownNodes};
pub use search::Search;

/// A pace as it travels; 0 is kept for those who do not say it.
pub(crate) fn pace_milli(pace: f64) -> u32 {
    ((pace * 1_000.0).round() as u32).max(1)
}

/// A running member. Dropping it is a crash: nobody is told.
pub struct Member {
    inner: Arc<Inner>,
    http: Option<SocketAddr>,
    /// Let go when it has left.
    folder: Mutex<Option<NodeFolder>>,
}

/// What the tasks and handlers of one member share.
pub(crate) struct Inner {
    pub(crate) identity: Identity,
    pub(crate) life: Life,
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) channels: Channels,
    pub(crate) agent: Agent,
    /// Where others find us, by UDP and by TCP.
    pub(crate) address: SocketAddr,
    pub(crate) supervisor: Supervisor,
    pub(crate) numbers: Numbers,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) nodes_max: usize,
    /// Whose lives and folders are known, beyond what the node table says.
    pub(crate) known: Mutex<KnownNodes>,
    /// The latest hello of each node of this domain, for the rule of formation.
    pub(crate) hellos: Mutex<BTreeMap<NodeId, Hello>>,
    /// Whose pace was found to be another than ours; that is said once.
    pub(crate) paces: Mutex<BTreeSet<NodeId>>,
    pub(crate) health: Mutex<Tracker>,
    pub(crate) assessments: Mutex<BTreeMap<NodeId, Assessment>>,
    pub(crate) search: watch::Sender<Search>,
    pub(crate) group: watch::Sender<Option<GroupId>>,
    /// The whole state was pulled from somebody, or there is nobody to pull from.
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) leaving: watch::Sender<bool>,
    pub(crate) end: watch::Sender<Option<End>>,
    /// A later life of this node that the gossip tells of.
    pub(crate) doubt: watch::Sender<Option<Peer>>,
    pub(crate) exchanges: Arc<Semaphore>,
    pub(crate) watches: Arc<Semaphore>,
    /// One change of the key ring at a time, because it is also written.
    pub(crate) keys: tokio::sync::Mutex<()>,
}

/// The membership that a role belongs to (R11): gates among themselves, managers with their
/// workers.
#[must_use]
pub fn roles_of_domain(role: Role) -> Vec<Role> {
    match role {
        Role::Gate => vec![Role::Gate],
        Role::Manager | Role::Worker => vec![Role::Manager, Role::Worker],
        // They are nobody's members; `start` refuses them.
        Role::Client | Role::Recruit => Vec::new(),
    }
}

/// Whom a role looks for.
pub(crate) fn look_for(role: Role) -> Role {
    if role == Role::Gate { Role::Gate } else { Role::Manager }
}

impl Inner {
    pub(crate) fn domain(identity: &Identity) -> Domain {
        Domain {
            cluster: identity.cluster.clone(),
            environment: identity.environment.clone(),
            roles: roles_of_domain(identity.role),
        }
    }

    /// Whether this identity is one of our membership.
    pub(crate) fn is_of_domain(&self, other: &Identity) -> bool {
        roles_of_domain(self.identity.role).contains(&other.role)
            && self.identity.cluster == other.cluster
            && self.identity.environment == other.environment
            && (other.role == Role::Gate || self.identity.datacenter == other.datacenter)
    }

    /// What we say of ourselves.
    pub(crate) fn introduction(&self) -> Introduction {
        let hello = Hello {
            identity: self.identity.clone(),
            boot: self.life.boot,
            group: *self.group.borrow(),
            voters: formation::digest(&self.config.voters),
            gossip: self.address,
            service: self.address,
        };
        let (folder, disk) = self.numbers_of_data();
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let pace_milli = pace_milli(self.config.pace);
        Introduction { hello, folder, disk, protocol: trust::PROTOCOL, program, pace_milli }
    }

    /// The number of our data folder, or that of our ledger's disk; the other one is 0.
    pub(crate) fn numbers_of_data(&self) -> (u64, u64) {
        let number = self.life.folder;
        if self.config.life.is_some() { (0, number) } else { (number, 0) }
    }

    pub(crate) fn scaled(&self, time: Duration) -> Duration {
        self.config.scaled(time)
    }

    pub(crate) fn assessment(&self, node: NodeId) -> Option<Assessment> {
        lock(&self.assessments).get(&node).copied()
    }

    /// Whether this node may be offered something: it has joined (or is the first), and nothing is
    /// wrong with it.
    pub(crate) fn is_ready(&self) -> bool {
        *self.synced.borrow() && !*self.leaving.borrow() && self.end.borrow().is_none()
    }
}

impl Member {
    /// Who this is, by its certificate.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    #[must_use]
    pub fn life(&self) -> Life {
        self.inner.life
    }

    /// Where others find it: gossip by UDP, gRPC by TCP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Where metrics and debug endpoints are served, if they are.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The node table, as it is now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.inner.agent.view()
    }

    /// Wakes up when the view has been replaced.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.inner.agent.watch()
    }

    /// Every change after `version`; if they are no longer kept, read the view and go on from its
    /// version.
    ///
    /// # Errors
    /// If the gossip has ended.
    pub async fn changes(&self, version: u64) -> Result<Result<Vec<Change>, Missed>, Stopped> {
        self.inner.agent.changes(version).await
    }

    /// The three signals of a node, as last looked at.
    #[must_use]
    pub fn health(&self, node: NodeId) -> Option<Assessment> {
        self.inner.assessment(node)
    }

    /// Where the search for peers stands.
    #[must_use]
    pub fn search(&self) -> Search {
        self.inner.search.borrow().clone()
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// The latest hellos of live nodes of this domain: what the rule of formation looks at.
    #[must_use]
    pub fn hellos(&self) -> BTreeMap<NodeId, Hello> {
        lock(&self.inner.hellos).clone()
    }

    /// This node has founded a group or was admitted to one.
    pub fn set_group(&self, group: GroupId) {
        self.inner.group.send_replace(Some(group));
    }

    /// The network of this node, for services of its own.
    #[must_use]
    pub fn network(&self) -> Arc<dyn Network> {
        Arc::clone(&self.inner.network)
    }

    /// The channel to a node of this membership, by its address in the node table.
    #[must_use]
    pub fn channel(
        &self,
        address: SocketAddr,
        role: Role,
        node: NodeId,
    ) -> tonic::transport::Channel {
        self.inner.channels.to(address, trust::Expected { role, node: Some(node) })
    }

    /// The key that seals the gossip now. For those who are let in by this node; never to be shown.
    ///
    /// # Errors
    /// If the gossip has ended.
    pub async fn gossip_key(&self) -> Result<GossipKey, Stopped> {
        let ring = self.inner.agent.ring().await?;
        let sealing = ring.keys.iter().find(|(id, _)| *id == ring.sealing);
        sealing.map(|(_, key)| GossipKey(*key)).ok_or(Stopped)
    }

    /// Counts a call to a service of this node's own that was refused, by a name from a fixed set.
    pub fn count_refused(&self, kind: &'static str) {
        self.inner.numbers.calls_refused.add(kind);
    }

    /// Counts a worker that was made by this node.
    pub fn count_enlisted(&self) {
        self.inner.numbers.enlisted.fetch_add(1, Ordering::Relaxed);
    }

    /// Shows the circuit breakers in front of others of a role: how often one has opened so far,
    /// and how many are not closed now.
    pub fn set_breakers(&self, target: &'static str, opened: u64, open: u64) {
        lock(&self.inner.numbers.breakers).insert(target, (opened, open));
    }

    /// Runs the other background tasks of this node as well.
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.inner.supervisor
    }

    /// Waits until this node has to stop, and says why and what to do.
    pub async fn ended(&self) -> End {
        let mut end = self.inner.end.subscribe();
        let told = async {
            match end.wait_for(Option::is_some).await.map(|end| end.clone()) {
                Ok(Some(end)) => end,
                // The sender lives as long as we do.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            end = told => end,
            fatal = self.inner.supervisor.failed() => End::Task(fatal),
        }
    }

    /// Takes no more, says goodbye, and ends. Half of the time is for the farewell.
    ///
    /// # Errors
    /// With the tasks that did not end in time and were cut off.
    pub async fn leave(&self, deadline: Duration) -> Result<(), Unfinished> {
        self.inner.leaving.send_replace(true);
        let farewell = tokio::time::timeout(deadline / 2, self.inner.agent.leave()).await;
        if !matches!(farewell, Ok(Ok(()))) {
            tracing::warn!(
                "the farewell could not be sent; the others will find out by themselves"
            );
        }
        peers::save(&self.inner);
        let ended = self.inner.supervisor.shutdown(deadline / 2).await;
        lock(&self.folder).take();
        ended
    }
}

impl Member {
    /// Ends at once, as a crash would: nobody is told.
    pub fn cut_off(&self) {
        self.inner.supervisor.cut_off();
        self.inner.agent.stop();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.cut_off();
    }
}
