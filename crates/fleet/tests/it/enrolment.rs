//! Workers join with a token, at real managers on real sockets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::NodeId;
use fleet::client::enrol::{EnrolError, Enrolment, enrol, is_enrolled, managers_in};
use fleet::local::LocalCluster;
use fleet::manager::Manager;
use fleet::wire::proto;
use fleet::wire::proto::enrolment_client::EnrolmentClient;
use membership::State;
use node::config::CredentialFiles;
use node::network::{ChannelTiming, Limits, Mutual, Network, channel_on};
use node::secret::GossipKey;
use node::{Config, Member};
use tempfile::TempDir;
use tonic::transport::Channel;
use trust::{
    DevCa, Expected, FreshKey, Gates, Issued, JoinToken, Keeper, Policy, Role, Validity, show,
};

const DAY: Duration = Duration::from_secs(24 * 3600);
const DEADLINE: Duration = Duration::from_secs(20);

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

struct World {
    temp: TempDir,
    local: LocalCluster,
    ca: DevCa,
}

impl World {
    fn new(managers: usize) -> Self {
        let temp = TempDir::new().unwrap();
        let local = LocalCluster::create(&temp.path().join("cluster"), managers, 0).unwrap();
        let ca = DevCa::open(&temp.path().join("cluster/ca")).unwrap();
        Self { temp, local, ca }
    }

    async fn start(&self, number: usize) -> Manager {
        let mut config = self.local.manager_config(&self.local.managers[number]).unwrap();
        config.member.pace = 0.2;
        Manager::start(config).await.unwrap()
    }

    fn address(&self, number: usize) -> String {
        self.local.managers[number].bind.to_string()
    }

    fn token(&self, length: Duration) -> JoinToken {
        self.ca.token("local", Validity::starting(now(), length)).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.temp.path().join("worker")
    }

    fn enlistment(&self, token: JoinToken, managers: &[usize]) -> Enrolment {
        Enrolment {
            managers: managers.iter().map(|number| self.address(*number)).collect(),
            token,
            folder: self.data().join("certs"),
            cores: 2,
            deadline: DEADLINE,
            patience: Duration::from_secs(1),
            notice: None,
        }
    }

    /// A connection to the first manager's door, with this certificate.
    async fn door(&self, keeper: Arc<Keeper>) -> EnrolmentClient<Channel> {
        let policy = Policy { gates: Gates::None, expected: None };
        let network = Mutual::new(keeper, policy, Limits::default()).unwrap();
        let expected = Expected { role: Role::Manager, node: None };
        let connection = network.connect(&self.address(0), expected).await.unwrap();
        let timing = ChannelTiming::paced(1.0);
        EnrolmentClient::new(channel_on(connection, &timing).await.unwrap())
    }

    fn keeper(&self, issued: &Issued) -> Arc<Keeper> {
        let (certificate, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
        let ca = self.ca.certificate().as_bytes();
        Keeper::new(trust::Credentials::from_pem(certificate, key, ca, now()).unwrap())
    }
}

fn request() -> proto::EnrolRequest {
    let public_key = FreshKey::draw().unwrap().public.into();
    proto::EnrolRequest { public_key, cores: 1 }
}

/// A bare member with what an enlistment has left in the folder, and nothing else.
async fn start_worker(data: &Path) -> Member {
    let certs = data.join("certs");
    let credentials = CredentialFiles {
        certificate: certs.join("worker.pem"),
        key: certs.join("worker-key.pem"),
        ca: certs.join("ca.pem"),
    };
    let key = GossipKey::load(&certs.join("gossip.key")).unwrap();
    let mut config = Config::new(data.to_path_buf(), credentials, key);
    config.bind = SocketAddr::from(([127, 0, 0, 1], 0));
    config.gates = Gates::None;
    config.pace = 0.2;
    for seed in managers_in(&certs).unwrap() {
        config.seed(&seed).unwrap();
    }
    Member::start(config).await.unwrap()
}

async fn until_known(manager: &Manager, node: NodeId) {
    for _ in 0..1200 {
        let view = manager.member().view();
        let is_it = |entry: &&membership::Entry| entry.peer.node == node;
        let known = view.entries.iter().find(is_it);
        if known.is_some_and(|e| e.state == State::Confirmed && e.peer.role == Role::Worker) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the manager does not know the worker");
}

/// One token, and the worker is a member; at its next start it needs the token no more, and is who
/// it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_joins_with_a_token_and_starts_again_without() {
    let world = World::new(1);
    let manager = world.start(0).await;
    let text = std::fs::read_to_string(world.local.write_token(DAY).unwrap()).unwrap();
    let token = JoinToken::from_text(&text, now()).unwrap();
    // The first address is nobody's.
    let mut enlistment = world.enlistment(token, &[0]);
    enlistment.managers.insert(0, "127.0.0.1:9".to_owned());
    let enlisted = enrol(&enlistment).await.unwrap();
    assert_eq!(
        (enlisted.identity.role, &enlisted.identity.datacenter[..]),
        (Role::Worker, "local")
    );
    assert_eq!(enlisted.manager, world.address(0));
    let ninety = now() + 90 * DAY.as_secs();
    assert!(enlisted.not_after.abs_diff(ninety) < 600, "90 days");
    assert_eq!(managers_in(&enlistment.folder).unwrap(), [world.address(0)]);

    let worker = start_worker(&world.data()).await;
    until_known(&manager, enlisted.identity.node).await;
    worker.leave(Duration::from_secs(2)).await.unwrap();
    drop(worker);
    assert!(is_enrolled(&enlistment.folder));
    let again = start_worker(&world.data()).await;
    assert_eq!(again.identity(), &enlisted.identity);
    assert_eq!(again.life().boot.0, 2);
    until_known(&manager, enlisted.identity.node).await;
    // A second enlistment into the same folder would make another node of it.
    assert!(matches!(enrol(&enlistment).await, Err(EnrolError::Taken { .. })));
}

/// A token that has run out opens nothing: not in the reader, not in the handshake, not on a
/// connection that is open.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_refused_everywhere() {
    let world = World::new(1);
    let _manager = world.start(0).await;
    let token = world.token(Duration::from_secs(4));
    let keeper = Keeper::new(token.credentials(now()).unwrap());
    let mut open = world.door(Arc::clone(&keeper)).await;
    open.enrol(request()).await.unwrap();
    while now() <= token.not_after() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let status = open.enrol(request()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert!(status.message().contains("the join token expired at"), "{status}");
    // With TLS 1.3 the refusal shows with the first answer.
    assert!(world.door(keeper).await.enrol(request()).await.is_err());
    let error = JoinToken::from_text(&token.to_text(), now()).unwrap_err().to_string();
    assert!(error.contains("expired at"), "{error}");
    let error = enrol(&world.enlistment(token, &[0])).await.unwrap_err();
    assert!(matches!(error, EnrolError::Token(_)), "{error}");
    assert!(!world.data().exists());
}

/// Of three managers only the first has the CA. The others say what to do, and a list of all three
/// finds the one.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_without_the_ca_says_what_to_do() {
    let world = World::new(2);
    let (_first, _second) = tokio::join!(world.start(0), world.start(1));
    let error = enrol(&world.enlistment(world.token(DAY), &[1])).await.unwrap_err().to_string();
    for words in
        ["without --ca", "volley certs issue", "--role worker --datacenter local", "--certs"]
    {
        assert!(error.contains(words), "{error}");
    }
    assert!(!world.data().exists());
    let enlisted = enrol(&world.enlistment(world.token(DAY), &[1, 0])).await.unwrap();
    assert_eq!(enlisted.manager, world.address(0));
}

/// Only a token makes workers: no other certificate does, and neither does a token of another
/// cluster.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_becomes_a_worker() {
    let world = World::new(1);
    let _manager = world.start(0).await;
    for role in [Role::Client, Role::Worker, Role::Manager] {
        let issued = world.ca.issue(role, "local", NodeId(77), Validity::starting(now(), DAY));
        let mut door = world.door(world.keeper(&issued.unwrap())).await;
        let status = door.enrol(request()).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
        assert!(status.message().contains(&format!("the certificate of a {role}")), "{status}");
    }
    let other = World::new(1);
    let error = enrol(&world.enlistment(other.token(DAY), &[0])).await.unwrap_err().to_string();
    assert!(error.contains("does not belong to the cluster of this join token"), "{error}");
    // Of the same CA, for another datacenter.
    let elsewhere = world.ca.token("elsewhere", Validity::starting(now(), DAY)).unwrap();
    let error = enrol(&world.enlistment(elsewhere, &[0])).await.unwrap_err().to_string();
    assert!(error.contains("stay within theirs"), "{error}");
    // A key that is none.
    let token = world.token(DAY);
    let mut door = world.door(Keeper::new(token.credentials(now()).unwrap())).await;
    let bad = proto::EnrolRequest { public_key: vec![1; 44].into(), cores: 1 };
    let status = door.enrol(bad).await.unwrap_err();
    assert!(status.message().contains("not an Ed25519 key"), "{status}");
    assert!(!world.data().exists());
}

/// A bound on how many a minute, and a certificate that does not outlive its CA.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_bounded_in_number_and_length() {
    let world = World::new(1);
    let mut config = world.local.manager_config(&world.local.managers[0]).unwrap();
    (config.enlisted_per_minute, config.worker_days) = (1, 5000);
    let _manager = Manager::start(config).await.unwrap();
    let enlistment = world.enlistment(world.token(DAY), &[0]);
    let enlisted = enrol(&enlistment).await.unwrap();
    let ca = world.temp.path().join("cluster/ca/ca.pem");
    assert_eq!(enlisted.not_after, show(&ca).unwrap()[0].not_after);
    let second = Enrolment { folder: world.temp.path().join("second"), ..enlistment };
    let error = enrol(&second).await.unwrap_err().to_string();
    assert!(error.contains("within a minute; again in"), "{error}");
    assert!(!second.folder.exists());
}

/// A manager does not start with a CA whose workers it would not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_ca_is_refused_at_the_start() {
    let (world, other) = (World::new(1), World::new(1));
    let mut config = world.local.manager_config(&world.local.managers[0]).unwrap();
    config.ca = Some(other.temp.path().join("cluster/ca"));
    let error = Manager::start(config.clone()).await.err().unwrap().to_string();
    assert!(error.contains("is not one that this manager trusts"), "{error}");
    config.ca = Some(world.temp.path().join("nothing"));
    let error = Manager::start(config).await.err().unwrap().to_string();
    assert!(error.contains("nothing/ca.pem"), "{error}");
}
