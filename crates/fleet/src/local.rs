//! A whole datacenter on one machine: its certificates, folders and ports, for trying out and for
//! tests.
//!
//! ```text
//! DIR/ca          the authority of this cluster; its first manager has it, so that more workers can join
//! DIR/join-token  with which they do, if one was made
//! DIR/client      certificate of whoever submits jobs
//! DIR/m1 .. w2    one folder per node: `certs` and `data`
//! DIR/nodes.json  which node is where, so that it can be started again
//! ```

use base::clock;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fence::NodeId;
use membership::discovery::Seed;
use node::config::CredentialFiles;
use node::secret::GossipKey;
use serde_json::{Value, json};
use trust::{DevCa, Gates, Role, Validity, create_private};

use crate::manager::ManagerConfig;

/// Certificates of a cluster for trying out last this long.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const DATACENTER: &str = "local";
/// Which node is where.
const NODES: &str = "nodes.json";
/// How often a free pair of ports is looked for.
const PORT_TRIES: usize = 100;

/// One node of it.
#[derive(Clone, Debug)]
pub struct Place {
    /// `m1`, `w2`.
    pub name: String,
    pub role: Role,
    pub node: NodeId,
    pub certs: PathBuf,
    pub data: PathBuf,
    /// Gossip and gRPC; a manager's ledger has the next port.
    pub bind: SocketAddr,
}

/// Everything that its nodes are started with.
#[derive(Clone, Debug)]
pub struct LocalCluster {
    pub folder: PathBuf,
    pub managers: Vec<Place>,
    pub workers: Vec<Place>,
    /// Folder of the certificate for clients.
    pub client: PathBuf,
}

/// Why it could not be made.
#[derive(Debug)]
pub struct LocalError(pub String);

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LocalError {}

fn failed(path: &Path) -> impl Fn(io::Error) -> LocalError {
    let path = path.display().to_string();
    move |error| LocalError(format!("{path}: {error}"))
}

/// A port that is free for TCP and UDP, and the next one for TCP.
fn free_ports(taken: &mut BTreeSet<u16>) -> Result<u16, LocalError> {
    let host = Ipv4Addr::LOCALHOST;
    for _ in 0..PORT_TRIES {
        let drawn = TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr());
        let port = drawn.map_err(|error| LocalError(format!("no port is free: {error}")))?.port();
        let Some(next) = port.checked_add(1) else { continue };
        let is_free = !taken.contains(&port)
            && !taken.contains(&next)
            && UdpSocket::bind((host, port)).is_ok()
            && TcpListener::bind((host, next)).is_ok();
        if is_free {
            taken.extend([port, next]);
            return Ok(port);
        }
    }
    Err(LocalError("no two ports beside each other are free on 127.0.0.1".to_owned()))
}

fn random<const N: usize>() -> Result<[u8; N], LocalError> {
    let mut bytes = [0; N];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|_| LocalError("this machine gives no random numbers".to_owned()))?;
    Ok(bytes)
}

impl LocalCluster {
    /// Makes a new cluster in `folder`, which must not hold one: its certificates, and places for
    /// its nodes.
    ///
    /// # Errors
    /// If something is there already or cannot be written.
    pub fn create(folder: &Path, managers: usize, workers: usize) -> Result<Self, LocalError> {
        let ca_folder = folder.join("ca");
        let now = clock::unix_now().as_secs();
        let ca = DevCa::create(&ca_folder, "local", "trial", Validity::starting(now, 10 * YEAR))
            .map_err(|error| LocalError(error.to_string()))?;
        let key = GossipKey::draw().map_err(|error| LocalError(error.to_string()))?;
        let key = format!("{}\n", key.to_text());
        // Where `volley certs issue` finds it, for nodes that come later.
        let with_ca = ca_folder.join("gossip.key");
        create_private(&with_ca, key.as_bytes()).map_err(failed(&with_ca))?;
        let validity = Validity::starting(now, YEAR);
        let issue = |role: Role, folder: &Path| -> Result<NodeId, LocalError> {
            let node = NodeId(u128::from_be_bytes(random()?));
            let issued = ca.issue(role, DATACENTER, node, validity);
            let issued = issued.map_err(|error| LocalError(error.to_string()))?;
            let stem = role.to_string();
            issued.write_as(folder, &stem).map_err(|error| LocalError(error.to_string()))?;
            let ca_file = folder.join("ca.pem");
            create_private(&ca_file, ca.certificate().as_bytes()).map_err(failed(&ca_file))?;
            if role != Role::Client {
                let file = folder.join("gossip.key");
                create_private(&file, key.as_bytes()).map_err(failed(&file))?;
            }
            Ok(node)
        };
        let client = folder.join("client");
        issue(Role::Client, &client)?;
        let mut taken = BTreeSet::new();
        let mut place = |role: Role, name: String| -> Result<Place, LocalError> {
            let home = folder.join(&name);
            let certs = home.join("certs");
            let node = issue(role, &certs)?;
            let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(&mut taken)?));
            Ok(Place { name, role, node, certs, data: home.join("data"), bind })
        };
        let managers: Result<Vec<Place>, LocalError> =
            (1..=managers).map(|n| place(Role::Manager, format!("m{n}"))).collect();
        let workers: Result<Vec<Place>, LocalError> =
            (1..=workers).map(|n| place(Role::Worker, format!("w{n}"))).collect();
        let (managers, workers) = (managers?, workers?);
        let made = Self { folder: folder.to_path_buf(), managers, workers, client };
        made.write_nodes()?;
        Ok(made)
    }

    fn write_nodes(&self) -> Result<(), LocalError> {
        let line = |place: &Place| {
            let Place { name, role, node, bind, .. } = place;
            json!({ "name": name, "role": role.to_string(), "node": node.to_string(), "bind": bind })
        };
        let nodes: Vec<_> = self.managers.iter().chain(&self.workers).map(line).collect();
        let path = self.folder.join(NODES);
        create_private(&path, format!("{:#}\n", json!(nodes)).as_bytes()).map_err(failed(&path))
    }

    /// The cluster that was made in this folder before; `None`: there is none.
    ///
    /// # Errors
    /// If what is there cannot be read, or runs: its ports are taken.
    pub fn open(folder: &Path) -> Result<Option<Self>, LocalError> {
        let path = folder.join(NODES);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path)(error)),
        };
        let wrong = || LocalError(format!("{}: not what `volley up` has written", path.display()));
        let nodes: Vec<Value> = serde_json::from_str(&text).map_err(|_| wrong())?;
        let mut all = Vec::new();
        for node in &nodes {
            let text = |key: &str| node[key].as_str().ok_or_else(wrong);
            let name = text("name")?.to_owned();
            // It becomes a path.
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(wrong());
            }
            let home = folder.join(&name);
            all.push(Place {
                role: text("role")?.parse().map_err(|_| wrong())?,
                node: text("node")?.parse().map_err(|_| wrong())?,
                bind: text("bind")?.parse().map_err(|_| wrong())?,
                certs: home.join("certs"),
                data: home.join("data"),
                name,
            });
        }
        for Place { name, bind, .. } in &all {
            if let Err(error) = TcpListener::bind(bind) {
                return Err(LocalError(format!(
                    "the cluster of {} runs already, or somebody else has the port of {name}: {bind}: {error}; \
                     `volley status` shows a cluster that runs",
                    folder.display()
                )));
            }
        }
        let (managers, workers) = all.into_iter().partition(|place| place.role == Role::Manager);
        let client = folder.join("client");
        Ok(Some(Self { folder: folder.to_path_buf(), managers, workers, client }))
    }

    /// The addresses of the managers' ledgers: what each of them is told of the others.
    #[must_use]
    pub fn founders(&self) -> Vec<String> {
        match &self.managers[..] {
            [_] => Vec::new(),
            several => {
                several.iter().map(|place| ledger_of(&place.bind.into()).to_string()).collect()
            }
        }
    }

    /// Where clients find the managers.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.managers.iter().map(|place| place.bind.to_string()).collect()
    }

    /// How a node of it is started. Everybody looks for the first manager, which may be down, and
    /// for the others.
    ///
    /// # Errors
    /// If its key cannot be read.
    pub fn node_config(&self, place: &Place) -> Result<node::Config, LocalError> {
        let stem = place.role.to_string();
        let credentials = CredentialFiles {
            certificate: place.certs.join(format!("{stem}.pem")),
            key: place.certs.join(format!("{stem}-key.pem")),
            ca: place.certs.join("ca.pem"),
        };
        let key = GossipKey::load(&place.certs.join("gossip.key"));
        let key = key.map_err(|error| LocalError(error.to_string()))?;
        let mut config = node::Config::new(place.data.clone(), credentials, key);
        config.bind = place.bind;
        config.gates = Gates::None;
        config.voters = self.managers.iter().map(|manager| manager.node).collect();
        for seed in self.addresses().iter().filter(|seed| **seed != place.bind.to_string()) {
            config.seed(seed).map_err(|error| LocalError(error.to_string()))?;
        }
        Ok(config)
    }

    /// # Errors
    /// If its key cannot be read.
    pub fn manager_config(&self, place: &Place) -> Result<ManagerConfig, LocalError> {
        let mut config = ManagerConfig::new(self.node_config(place)?);
        config.founders = self.founders();
        config.ca = self.ca_of(place);
        Ok(config)
    }

    /// The folder of the CA, for the one manager that makes workers of those who join: the first.
    #[must_use]
    pub fn ca_of(&self, place: &Place) -> Option<PathBuf> {
        let first = self.managers.first().is_some_and(|first| first.node == place.node);
        first.then(|| self.folder.join("ca"))
    }

    /// A join token, in a file. Whoever reads it can become a worker until it expires.
    ///
    /// # Errors
    /// If it cannot be made or written; an old one is written over.
    pub fn write_token(&self, length: Duration) -> Result<PathBuf, LocalError> {
        let now = clock::unix_now().as_secs();
        let ca = DevCa::open(&self.folder.join("ca"));
        let token = ca.and_then(|ca| ca.token(DATACENTER, Validity::starting(now, length)));
        let token = token.map_err(|error| LocalError(error.to_string()))?;
        let path = self.folder.join("join-token");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path)(error));
            }
            _ => {}
        }
        let text = format!("{}\n", token.to_text());
        create_private(&path, text.as_bytes()).map_err(failed(&path))?;
        Ok(path)
    }
}

/// The ledger of a manager listens on the port after the manager's own.
#[must_use]
pub fn ledger_of(manager: &Seed) -> Seed {
    manager.at_port(manager.port().wrapping_add(1))
}
