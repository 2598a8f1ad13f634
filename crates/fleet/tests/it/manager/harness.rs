//! Managers, and certificates for whoever knocks at them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::owner;
use engine::attempt::PackedPlan;
use fence::{JobId, NodeId};
use fleet::bundle::Bundle;
use fleet::client::{FleetClient, Submission};
use fleet::local::{LocalCluster, Place};
use fleet::manager::{Manager, ManagerConfig};
use fleet::wire::MESSAGE_BYTES_MAX;
use fleet::wire::proto::jobs_client::JobsClient;
use ledger_state::IdempotencyKey;
use node::CredentialFiles;
use node::network::{ChannelTiming, Channels, Limits, Mutual};
use tempfile::TempDir;
use tonic::transport::Channel;
use trust::{DevCa, Expected, Gates, Policy, Role, Validity};

const PACE: f64 = 0.2;
pub const WITHIN: Duration = Duration::from_secs(60);

pub struct Datacenter {
    pub temp: TempDir,
    pub local: LocalCluster,
    pub managers: Vec<Manager>,
}

pub fn node(number: u128) -> NodeId {
    NodeId(number << 96 | 0xabcd)
}

impl Datacenter {
    /// So many managers, each changed before it starts; it returns when one of them leads.
    pub async fn start(managers: usize, change: impl Fn(&mut ManagerConfig, &Place)) -> Self {
        Self::with_workers(managers, 0, change).await
    }

    /// With certificates and places for so many workers, which the test starts.
    pub async fn with_workers(
        managers: usize,
        workers: usize,
        change: impl Fn(&mut ManagerConfig, &Place),
    ) -> Self {
        let temp = TempDir::new().unwrap();
        let local = LocalCluster::create(temp.path(), managers, workers).unwrap();
        let mut starting = Vec::new();
        for place in &local.managers {
            let mut config = local.manager_config(place).unwrap();
            config.member.pace = PACE;
            change(&mut config, place);
            starting.push(tokio::spawn(Manager::start(config)));
        }
        let mut managers = Vec::new();
        for one in starting {
            managers.push(one.await.unwrap().unwrap());
        }
        let center = Self { temp, local, managers };
        let leads = |one: &Manager| one.ledger().is_some_and(|ledger| ledger.leads);
        until("somebody leads", || center.managers.iter().any(leads)).await;
        center
    }

    pub async fn alone() -> Self {
        Self::start(1, |_, _| ()).await
    }

    pub fn address(&self, number: usize) -> SocketAddr {
        self.local.managers[number].bind
    }

    /// The certificate of one who comes: made when it is first asked for.
    pub fn files(&self, role: Role, number: u128) -> CredentialFiles {
        let folder = self.temp.path().join(format!("{role}-{number}"));
        let file = |name: &str| folder.join(name);
        if !folder.exists() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            let validity = Validity::starting(now, Duration::from_secs(86_400));
            let ca = DevCa::open(&self.temp.path().join("ca")).unwrap();
            let issued = ca.issue(role, "local", node(number), validity).unwrap();
            issued.write_as(&folder, "own").unwrap();
            std::fs::write(file("ca.pem"), ca.certificate()).unwrap();
        }
        CredentialFiles {
            certificate: file("own.pem"),
            key: file("own-key.pem"),
            ca: file("ca.pem"),
        }
    }

    /// The way to a manager for one who comes.
    pub fn channel(&self, role: Role, number: u128, to: usize) -> Channel {
        let expected = Expected { role: Role::Manager, node: None };
        self.channel_to(self.files(role, number), self.address(to), expected)
    }

    pub fn channel_to(&self, own: CredentialFiles, to: SocketAddr, expected: Expected) -> Channel {
        let policy = Policy { gates: Gates::None, expected: None };
        let network = Mutual::load(own, policy, Limits::default()).unwrap();
        Channels::new(Arc::new(network), ChannelTiming::paced(1.0)).to(to, expected)
    }

    /// The certificate of a manager that was started.
    pub fn own_files(&self, number: usize) -> CredentialFiles {
        let config = self.local.manager_config(&self.local.managers[number]).unwrap();
        config.member.credentials
    }

    pub fn jobs(&self, role: Role, number: u128, to: usize) -> JobsClient<Channel> {
        JobsClient::new(self.channel(role, number, to))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

/// Hands in a job of a third of a second.
pub async fn submit(
    client: &FleetClient,
    folder: &Path,
    target: SocketAddr,
    sequence: u64,
) -> JobId {
    submit_load(client, folder, target, sequence, "vus: 1, duration: 300ms, pacing: 50ms").await
}

pub async fn submit_load(
    client: &FleetClient,
    folder: &Path,
    target: SocketAddr,
    sequence: u64,
    load: &str,
) -> JobId {
    let path = folder.join("plan.yaml");
    let text = format!(
        "target: http://{target}\nworkflows: [ {{ name: w, load: {{ {load} }}, steps: [ {{ get: / }} ] }} ]\n"
    );
    std::fs::write(&path, text).unwrap();
    let (plan, packed) = PackedPlan::pack(&path, &plan::ReadOptions::new(&|_| None)).unwrap();
    let bundle = Bundle::of_plan(&plan, packed, owner::Policy::default()).unwrap();
    let bytes = bundle.encode().unwrap().into();
    let bundle = client.put(bytes, Arc::new(|_, _| ())).await.unwrap();
    let key = IdempotencyKey { client: "test".to_owned(), sequence, nonce: [7; 16] };
    let (key, name, age) = (key.to_string(), "w".to_owned(), Duration::ZERO);
    client.submit(&Submission { key, name, bundle, age }).await.unwrap().job
}

/// Waits until `holds`, for a minute at most: the machine may be busy.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < WITHIN {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} did not come about");
}
