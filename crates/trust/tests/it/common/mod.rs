//! Two clusters' worth of certificates for the tests on sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fence::NodeId;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use trust::{
    Acceptor, Arrival, Connector, Credentials, DevCa, Expected, HandshakeError, Incoming,
    IncomingLimits, Issued, Keeper, Policy, Role, Secured, Validity,
};

pub const DEADLINE: Duration = Duration::from_secs(5);

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub fn days(count: u64) -> Validity {
    Validity::starting(now(), Duration::from_secs(count * 86_400))
}

pub struct Authority {
    pub folder: TempDir,
    pub ca: DevCa,
}

impl Authority {
    pub fn new(cluster: &str, environment: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = DevCa::create(folder.path(), cluster, environment, days(365)).unwrap();
        Self { folder, ca }
    }

    pub fn issue(&self, role: Role, node: u128) -> Issued {
        self.ca.issue(role, "fra", NodeId(node), days(30)).unwrap()
    }

    pub fn keeper(&self, role: Role, node: u128) -> Arc<Keeper> {
        keeper(&self.issue(role, node), self.ca.certificate(), now())
    }
}

/// Credentials that are loaded at another time may be expired now, or not yet valid.
pub fn keeper(issued: &Issued, trusted: &str, at: u64) -> Arc<Keeper> {
    Keeper::new(credentials(issued, trusted, at))
}

pub fn credentials(issued: &Issued, trusted: &str, at: u64) -> Credentials {
    let (certificate, key) = (issued.certificate.as_bytes(), issued.key.as_bytes());
    Credentials::from_pem(certificate, key, trusted.as_bytes(), at).unwrap()
}

pub async fn listen(keeper: &Arc<Keeper>, policy: Policy, limits: IncomingLimits) -> Incoming {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Incoming::new(listener, Acceptor::new(keeper, policy, DEADLINE).unwrap(), limits)
}

pub async fn dial(
    keeper: &Arc<Keeper>,
    policy: Policy,
    to: SocketAddr,
    expected: Expected,
) -> Result<Secured<TcpStream>, HandshakeError> {
    let stream = TcpStream::connect(to).await.unwrap();
    Connector::new(keeper, policy, DEADLINE).unwrap().connect(stream, expected).await
}

pub fn any(role: Role) -> Expected {
    Expected { role, node: None }
}

pub fn refused(arrival: Arrival) -> String {
    match arrival {
        Arrival::Failed { error: HandshakeError::Refused(refusal), .. } => {
            refusal.kind().to_owned()
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}
