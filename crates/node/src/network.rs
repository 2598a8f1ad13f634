//! How nodes reach each other: mutual TLS in a real cluster, plain streams in a simulated one.
//!
//! A connection carries the identity of its other end, and every gRPC handler finds it as
//! [`Caller`] in its request. The simulator has no certificates; there a caller is who it says it
//! is.

mod channels;
mod for_ledger;
mod places;
mod reload;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use membership::agent::{Agent, AgentConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use trust::{Expected, HandshakeError};

pub use channels::{ChannelTiming, Channels, channel_on};
pub use for_ledger::LedgerTransport;
pub use places::{NoPlace, Place, Places};
pub use reload::{ReloadError, Reloads, watch as watch_credentials};
pub use tls::{Limits, Mutual};

/// A network as one node sees it.
pub trait Network: Send + Sync + 'static {
    /// Makes a connection and verifies that `expected` answers. `address` is `ip:port` or
    /// `name:port`. The caller sets the deadline.
    fn connect(
        &self,
        address: &str,
        expected: Expected,
    ) -> BoxFuture<'static, Result<Connection, ConnectError>>;

    /// Opens a connection and lets it go: whether the machine at the address takes one, refuses it,
    /// or says nothing.
    fn knock(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move { tokio::net::TcpStream::connect(address).await.map(drop) })
    }

    /// Listens. Dropping the listener stops it; connections that were handed out go on.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Listener>>;

    /// Starts the gossip on its own socket and thread; a simulated network has neither and runs it
    /// as a task.
    fn gossip(&self, config: AgentConfig) -> BoxFuture<'static, io::Result<Agent>> {
        Box::pin(async move { Agent::start(config) })
    }

    /// Connections and refusals so far, by kind.
    fn counts(&self) -> Vec<(Direction, &'static str, u64)> {
        Vec::new()
    }

    /// Counts a connection that a service has refused after the handshake, and logs it now and
    /// then.
    fn refused(&self, kind: &'static str, caller: &Caller, why: &str) {
        let _ = (kind, caller, why);
    }

    /// Whether there are files of credentials to look at now and then.
    fn has_files(&self) -> bool {
        false
    }

    /// Takes new credentials into use, if there are any; says whether there were.
    fn reload(&self) -> Result<bool, ReloadError> {
        Ok(false)
    }
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Inbound,
    Outbound,
}

impl Direction {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }
}

/// A listening socket and the connections that come out of it. Failures are counted inside and do
/// not end it.
pub struct Listener {
    pub address: SocketAddr,
    pub incoming: BoxStream<'static, Connection>,
}

/// Who is at the other end. Handlers find it among a request's extensions.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Where the connection comes from, or goes to.
    pub address: SocketAddr,
    /// As its certificate says; `None` only on a simulated network.
    pub peer: Option<Arc<trust::Peer>>,
}

/// A byte stream in both directions with whoever is at its other end.
pub struct Connection {
    io: Box<dyn ledger::Io>,
    caller: Caller,
    /// Its place among those that may be open.
    place: Option<Place>,
}

impl Connection {
    pub fn new(io: impl ledger::Io, caller: Caller) -> Self {
        Self { io: Box::new(io), caller, place: None }
    }

    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    #[must_use]
    pub fn in_place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// Nobody is there, or the way is blocked.
    Io { address: String, error: io::Error },
    /// Somebody is there; one side refuses the other.
    Handshake { address: String, error: HandshakeError },
    /// It failed a moment ago, and is not tried again yet.
    Resting { address: String, for_ms: u64 },
}

impl ConnectError {
    /// A short name for metrics; the set is fixed.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io { .. } => "unreachable",
            Self::Handshake { error, .. } => error.kind(),
            Self::Resting { .. } => "resting",
        }
    }

    /// The machine is there, or a firewall before it, and says that nobody listens at the address.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { address, error } => write!(f, "cannot connect to {address}: {error}"),
            Self::Handshake { address, error } => write!(f, "no connection to {address}: {error}"),
            Self::Resting { address, for_ms } => {
                write!(f, "{address} has just failed; it is tried again in {for_ms} ms")
            }
        }
    }
}

impl std::error::Error for ConnectError {}
