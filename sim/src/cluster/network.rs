//! The network under the product's own nodes: turmoil's sockets. TLS is replaced by two short
//! introductions, so that roles and identities are checked as on a real network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fence::NodeId;
use futures_util::future::BoxFuture;
use futures_util::stream;
use membership::Role;
use membership::agent::{Agent, AgentConfig, Datagrams};
use node::network::{Caller, ConnectError, Connection, Listener, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trust::{Expected, HandshakeError, Identity};
use turmoil::net::{TcpListener, TcpStream, UdpSocket};

use super::connection::{Conditions, Late, Purpose, SimConnection};
use super::world::PORT;
use crate::transport::Traced;

/// A role and a node.
const INTRODUCTION_BYTES: usize = 17;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(2);
/// Connections whose introductions were exchanged, and which nobody has taken yet.
const ACCEPTED_MAX: usize = 64;

/// The network as one host sees it.
pub struct SimNetwork {
    /// Number of the host, for the trace.
    pub host: u64,
    pub identity: Identity,
    pub conditions: Arc<Conditions>,
}

/// What a connection to this port is for. Both ends are of these roles.
fn purpose(roles: [Role; 2], port: u16) -> Option<Purpose> {
    let services = if port == PORT { Purpose::Services } else { Purpose::Ledger };
    (roles == [Role::Manager; 2]).then_some(services)
}

/// Everybody is of one cluster.
pub fn identity(role: Role, node: NodeId) -> Identity {
    let (cluster, environment, datacenter) = ("sim".into(), "sim".into(), "sim".into());
    Identity { cluster, environment, role, datacenter, node }
}

fn number(role: Role) -> u8 {
    match role {
        Role::Gate => 0,
        Role::Manager => 1,
        Role::Worker => 2,
        Role::Client => 3,
        Role::Recruit => 4,
    }
}

fn introduction(of: &Identity) -> [u8; INTRODUCTION_BYTES] {
    let mut bytes = [number(of.role); INTRODUCTION_BYTES];
    bytes[1..].copy_from_slice(&of.node.0.to_be_bytes());
    bytes
}

/// Says who we are, and hears who the other is.
async fn introduce(stream: &mut TcpStream, own: &Identity) -> io::Result<Identity> {
    stream.write_all(&introduction(own)).await?;
    let mut bytes = [0; INTRODUCTION_BYTES];
    stream.read_exact(&mut bytes).await?;
    let roles = [Role::Gate, Role::Manager, Role::Worker, Role::Client, Role::Recruit];
    let role = roles.into_iter().find(|role| number(*role) == bytes[0]);
    let node = bytes[1..].iter().fold(0, |node, byte| node << 8 | u128::from(*byte));
    role.map(|role| identity(role, NodeId(node)))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no role"))
}

/// The end of a connection to `port`, between this node and another that has introduced itself.
fn connection(
    (host, own, conditions): (u64, &Identity, Arc<Conditions>),
    stream: TcpStream,
    port: u16,
    other: Identity,
) -> io::Result<Connection> {
    let address = stream.peer_addr()?;
    let stream = SimConnection {
        stream: Traced::new(host, stream)?,
        ends: [own.node, other.node],
        purpose: purpose([own.role, other.role], port),
        conditions,
        waiting: None,
        late: Late::default(),
    };
    let peer = trust::Peer { identity: other, not_after: u64::MAX, fingerprint: [0; 32] };
    let caller = Caller { address, peer: Some(Arc::new(peer)) };
    Ok(Connection::new(stream, caller))
}

impl Network for SimNetwork {
    fn connect(
        &self,
        address: &str,
        expected: Expected,
    ) -> BoxFuture<'static, Result<Connection, ConnectError>> {
        let (host, own, address) = (self.host, self.identity.clone(), address.to_owned());
        let conditions = Arc::clone(&self.conditions);
        Box::pin(async move {
            let failed = |error| ConnectError::Io { address: address.clone(), error };
            let port =
                address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(PORT);
            tokio::time::sleep(conditions.late_by()).await;
            let mut stream = TcpStream::connect(address.as_str()).await.map_err(failed)?;
            let other = introduce(&mut stream, &own).await.map_err(failed)?;
            let wrong_node = expected.node.is_some_and(|node| node != other.node);
            if expected.role != other.role || wrong_node {
                let why = format!("{other:?} answers, {expected:?} was expected");
                let error = HandshakeError::Protocol { why };
                return Err(ConnectError::Handshake { address, error });
            }
            connection((host, &own, conditions), stream, port, other).map_err(failed)
        })
    }

    fn knock(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move { TcpStream::connect(address).await.map(drop) })
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Listener>> {
        let (host, own) = (self.host, self.identity.clone());
        let conditions = Arc::clone(&self.conditions);
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let (accepted, connections) = mpsc::channel(ACCEPTED_MAX);
            // Dropping the stream ends it, and with it the listener.
            let mut accepting = JoinSet::new();
            accepting.spawn(accept(listener, address.port(), (host, own, conditions), accepted));
            let taken = (connections, accepting);
            let incoming = stream::unfold(taken, |(mut connections, accepting)| async move {
                let next = connections.recv().await?;
                Some((next, (connections, accepting)))
            });
            Ok(Listener { address, incoming: Box::pin(incoming) })
        })
    }

    fn gossip(&self, config: AgentConfig) -> BoxFuture<'static, io::Result<Agent>> {
        let conditions = Arc::clone(&self.conditions);
        Box::pin(async move {
            let socket = UdpSocket::bind(config.bind).await?;
            Ok(Agent::start_task(config, Socket(socket, conditions)))
        })
    }
}

/// Somebody who connects and says nothing holds nobody else up.
async fn accept(
    listener: TcpListener,
    port: u16,
    (host, own, conditions): (u64, Identity, Arc<Conditions>),
    accepted: mpsc::Sender<Connection>,
) {
    let mut introductions = JoinSet::new();
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        while introductions.try_join_next().is_some() {}
        let (own, accepted) = (own.clone(), accepted.clone());
        let conditions = Arc::clone(&conditions);
        introductions.spawn(async move {
            let other = timeout(HANDSHAKE_WITHIN, introduce(&mut stream, &own)).await;
            if let Ok(Ok(other)) = other
                && let Ok(connection) = connection((host, &own, conditions), stream, port, other)
            {
                let _ = accepted.send(connection).await;
            }
        });
    }
}

struct Socket(UdpSocket, Arc<Conditions>);

impl Datagrams for Socket {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.0.readable()
    }

    fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.try_recv_from(buffer)
    }

    fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        // Nobody tells the sender.
        if self.1.is_lost() { Ok(bytes.len()) } else { self.0.try_send_to(bytes, to) }
    }
}
