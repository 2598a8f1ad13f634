//! What a member is started with. Every setting but the folder, the certificates and the key has a
//! default that works.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fence::{GroupId, NodeId};
use membership::discovery::{self, DnsName, NameError, Resolver, Seed};
use membership::{Role, Settings};
use trust::Gates;

use crate::http::HttpConfig;
use crate::identity::Life;
use crate::network::Limits;
use crate::secret::GossipKey;
use crate::vitals::Report;

/// The port of a node, TCP and UDP.
pub const PORT: u16 = 7500;

/// Where the certificate, its key and the trusted CAs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

/// Where random numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    System,
    /// A simulation. Never on a real network: nonces must not repeat.
    Seed(u64),
}

impl Entropy {
    /// 32 bytes for a generator. `stream` tells those of one seed apart.
    pub(crate) fn seed(self, stream: u8) -> Result<[u8; 32], getrandom::Error> {
        let mut bytes = [stream; 32];
        match self {
            Self::System => getrandom::fill(&mut bytes)?,
            Self::Seed(seed) => bytes[..8].copy_from_slice(&seed.to_le_bytes()),
        }
        Ok(bytes)
    }

    pub(crate) fn number(self, stream: u8) -> Result<u64, getrandom::Error> {
        use rand010::{Rng, SeedableRng};
        Ok(rand010::rngs::StdRng::from_seed(self.seed(stream)?).next_u64())
    }
}

/// Whether a manager is a member of the group that commands this node.
pub type Colleagues = Arc<dyn Fn(NodeId) -> bool + Send + Sync>;

#[derive(Clone)]
pub struct Config {
    /// The data folder. Holds `node` (who this is), `keyring` and `peers`.
    pub data: PathBuf,
    pub credentials: CredentialFiles,
    /// Begins the key ring; see [`crate::secret`].
    pub gossip_key: GossipKey,
    /// Where to listen: gossip by UDP and gRPC by TCP on the same port. 0.0.0.0:7500; port 0 takes
    /// a free one.
    pub bind: SocketAddr,
    /// The address that others are told; needed if `bind` is an unspecified one.
    pub advertise: Option<SocketAddr>,
    /// Peers to find, as [`Seed::parse`] reads them.
    pub seeds: Vec<Seed>,
    /// Names that stand for many nodes.
    pub names: Vec<DnsName>,
    /// Whether this cluster has gates. Where there are none, clients may ask managers.
    pub gates: Gates,
    /// The founding voters of the Raft group, by node id.
    pub voters: BTreeSet<NodeId>,
    /// The Raft group in this node's data folder.
    pub group: Option<GroupId>,
    /// Operators who may change the gossip keys from another machine, by the node id in their
    /// client certificate. From this machine every client may.
    pub operators: BTreeSet<NodeId>,
    /// Scales every time of membership, discovery and exchange (R23). 1.
    pub pace: f64,
    /// Metrics and debug endpoints; none by default.
    pub http: Option<HttpConfig>,
    /// The node and boot of a manager, from its ledger's storage. Others leave it: the data folder
    /// says.
    pub life: Option<Life>,
    /// What to tell the others of this node; by default what the machine shows.
    pub report: Option<Report>,
    pub limits: Limits,
    /// How often the files of the certificates are looked at. 10 s, not scaled.
    pub reload_every: Duration,
    pub entropy: Entropy,
    /// Who is asked for names; by default DNS as this machine is configured for it, and nobody if
    /// there are no names.
    pub resolver: Option<Arc<dyn Resolver>>,
    /// On a worker: the managers that pass on what operators want of it. By default all, where
    /// there is no group.
    pub colleagues: Option<Colleagues>,
    /// Paths of calls to those that may take longer than the others, because their handlers bound
    /// them.
    pub long_calls: Vec<&'static str>,
    /// More gRPC services on the same listener.
    pub routes: Option<tonic::service::Routes>,
}

impl Config {
    #[must_use]
    pub fn new(data: PathBuf, credentials: CredentialFiles, gossip_key: GossipKey) -> Self {
        Self {
            data,
            credentials,
            gossip_key,
            bind: SocketAddr::from(([0, 0, 0, 0], PORT)),
            advertise: None,
            seeds: Vec::new(),
            names: Vec::new(),
            gates: Gates::Configured,
            voters: BTreeSet::new(),
            group: None,
            operators: BTreeSet::new(),
            pace: 1.0,
            http: None,
            life: None,
            report: None,
            limits: Limits::default(),
            reload_every: Duration::from_secs(10),
            entropy: Entropy::System,
            resolver: None,
            colleagues: None,
            long_calls: Vec::new(),
            routes: None,
        }
    }

    /// Adds a seed: `host`, `host:port`, `1.2.3.4:7500`.
    ///
    /// # Errors
    /// If it is neither an address nor a host name.
    pub fn seed(&mut self, text: &str) -> Result<(), NameError> {
        self.seeds.push(Seed::parse(text, PORT)?);
        Ok(())
    }

    /// Adds a DNS name.
    ///
    /// # Errors
    /// If it is not a name.
    pub fn name(&mut self, text: &str) -> Result<(), NameError> {
        self.names.push(DnsName::parse(text, PORT)?);
        Ok(())
    }

    pub(crate) fn scaled(&self, time: Duration) -> Duration {
        time.mul_f64(self.pace).max(Duration::from_millis(1))
    }

    /// The settings of the gossip at this pace.
    #[must_use]
    pub fn membership(&self) -> Settings {
        let defaults = Settings::default();
        let scale = |time| self.scaled(time);
        Settings {
            probe_period: scale(defaults.probe_period),
            probe_timeout: scale(defaults.probe_timeout),
            gossip_period: scale(defaults.gossip_period),
            dead_for: scale(defaults.dead_for),
            tombstone_for: scale(defaults.tombstone_for),
            knock_period: scale(defaults.knock_period),
            greet_period: scale(defaults.greet_period),
            voters: self.voters.clone(),
            ..defaults
        }
    }

    /// The settings of the search at this pace. Deadlines of single steps are not shortened: a
    /// handshake takes what it takes.
    pub(crate) fn discovery(&self, look_for: Role) -> discovery::Settings {
        let defaults = discovery::Settings::new(look_for);
        let scale = |time| self.scaled(time);
        let at_least = |time: Duration| scale(time).max(time);
        discovery::Settings {
            seeds: self.seeds.clone(),
            names: self.names.clone(),
            policy: trust::Policy { gates: self.gates, expected: None },
            backoff: discovery::Backoff {
                first: scale(defaults.backoff.first),
                last: scale(defaults.backoff.last),
            },
            probe_deadline: at_least(defaults.probe_deadline),
            join_deadline: at_least(defaults.join_deadline),
            look_again: scale(defaults.look_again),
            ..defaults
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("data", &self.data)
            .field("bind", &self.bind)
            .field("advertise", &self.advertise)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
