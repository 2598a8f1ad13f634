//! Certificates, folders and members for the tests. Everything goes five times as fast as in a
//! datacenter.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::NodeId;
use membership::discovery::Seed;
use membership::{Role, State};
use node::client::ClientOptions;
use node::network::{Limits, Mutual, Network};
use node::secret::GossipKey;
use node::{Config, CredentialFiles, Member, MembersClient};
use tempfile::TempDir;
use trust::{DevCa, Gates, Policy, Validity};

pub const PACE: f64 = 0.2;
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn days(count: u64) -> Validity {
    Validity::starting(now(), Duration::from_secs(count * 86_400))
}

pub fn key(seed: u8) -> GossipKey {
    GossipKey(std::array::from_fn(|i| (i as u8).wrapping_mul(11).wrapping_add(seed)))
}

pub fn id(number: u128) -> NodeId {
    NodeId(number << 96 | 0xabcd)
}

pub struct World {
    pub temp: TempDir,
    pub ca: DevCa,
    pub name: &'static str,
}

impl World {
    pub fn new() -> Self {
        Self::of("test", TempDir::new().unwrap())
    }

    pub fn of(cluster: &'static str, temp: TempDir) -> Self {
        let folder = temp.path().join(format!("ca-{cluster}"));
        let ca = DevCa::create(&folder, cluster, "ci", days(365)).unwrap();
        Self { temp, ca, name: cluster }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn files(&self, role: Role, number: u128) -> CredentialFiles {
        self.files_in(&self.path("certs"), role, number, days(30))
    }

    pub fn files_in(
        &self,
        folder: &Path,
        role: Role,
        number: u128,
        validity: Validity,
    ) -> CredentialFiles {
        let stem = format!("{role}-{}", id(number));
        let (certificate, key) =
            (folder.join(format!("{stem}.pem")), folder.join(format!("{stem}-key.pem")));
        let ca = folder.join("ca.pem");
        if !certificate.exists() {
            let issued = self.ca.issue(role, "fra", id(number), validity).unwrap();
            issued.write(folder).unwrap();
            std::fs::write(&ca, self.ca.certificate()).unwrap();
        }
        CredentialFiles { certificate, key, ca }
    }

    pub fn config(&self, role: Role, number: u128, seeds: &[SocketAddr]) -> Config {
        let data = self.path(&format!("data-{}-{number}", self.name));
        let mut config = Config::new(data, self.files(role, number), key(1));
        config.bind = SocketAddr::from(([127, 0, 0, 1], 0));
        config.gates = Gates::None;
        config.pace = PACE;
        config.reload_every = Duration::from_millis(100);
        config.seeds = seeds.iter().map(|address| Seed::Address(*address)).collect();
        config
    }

    pub async fn start(&self, role: Role, number: u128, seeds: &[SocketAddr]) -> Member {
        Member::start(self.config(role, number, seeds)).await.unwrap()
    }

    pub fn network(&self, role: Role, number: u128) -> Arc<dyn Network> {
        let policy = Policy { gates: Gates::None, expected: None };
        Arc::new(Mutual::load(self.files(role, number), policy, Limits::default()).unwrap())
    }

    pub async fn operator(&self, of: &Member) -> MembersClient {
        self.client(Role::Client, 900, of.address()).await
    }

    pub async fn client(&self, role: Role, number: u128, address: SocketAddr) -> MembersClient {
        let options = ClientOptions {
            credentials: self.files(role, number),
            address: address.to_string(),
            role: Role::Manager,
            deadline: DEADLINE,
        };
        MembersClient::connect(options).await.unwrap()
    }
}

/// Waits until `holds`, for a minute at most: the machine may be busy.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not come about");
}

/// Everybody sees `count` others alive and both ways open.
pub async fn whole(members: &[&Member], count: usize) {
    until(&format!("a cluster of {}", count + 1), || {
        members.iter().all(|member| member.view().count(State::Confirmed) == count)
    })
    .await;
}

pub fn state_of(member: &Member, number: u128) -> Option<State> {
    let view = member.view();
    view.entries.iter().find(|entry| entry.peer.node == id(number)).map(|entry| entry.state)
}

/// One connection kind of a member's network, as its counters have it.
pub fn connections(member: &Member, direction: &str, kind: &str) -> u64 {
    let counts = member.network().counts();
    let of =
        |(d, k, _): &&(node::network::Direction, &str, u64)| d.name() == direction && *k == kind;
    counts.iter().filter(of).map(|(_, _, count)| count).sum()
}

/// A page of the debug listener.
pub async fn page(address: SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}
