//! How members reach each other: a small trait, so that a simulation can put its own network under
//! the same code.
//!
//! The TCP implementation has neither encryption nor proof of who calls, so it refuses every
//! address beyond loopback.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fence::NodeId;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::Uri;
use tonic::transport::server::Connected;

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Who is at the other end of a connection; `None` where nobody has a certificate, on loopback or
/// in a simulation. Handlers find it among a request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub Option<NodeId>);

/// A connection of whatever network is under us.
pub struct BoxedIo {
    io: Box<dyn Io>,
    peer: Peer,
    /// Its place among those that may be open.
    _place: Option<OwnedSemaphorePermit>,
}

impl BoxedIo {
    pub fn new(io: impl Io) -> Self {
        Self { io: Box::new(io), peer: Peer(None), _place: None }
    }

    /// The same with who is at the other end, as its certificate says.
    #[must_use]
    pub fn from_peer(mut self, node: Option<NodeId>) -> Self {
        self.peer = Peer(node);
        self
    }

    pub(crate) fn in_place(self, place: OwnedSemaphorePermit) -> Self {
        Self { _place: Some(place), ..self }
    }
}

impl AsyncRead for BoxedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BoxedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }
}

impl Connected for BoxedIo {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

/// Connections that others have made to us. An error is one failed accept; the stream goes on.
pub type Incoming = BoxStream<'static, io::Result<BoxedIo>>;

/// A network.
pub trait Transport: Send + Sync + 'static {
    /// Makes a connection. The caller sets the deadline.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>>;

    /// Listens. Dropping what comes back stops it.
    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Incoming>>;
}

/// TCP on loopback.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpTransport;

/// Reads `host:port` and refuses what lies beyond loopback.
fn loopback(address: &str) -> io::Result<SocketAddr> {
    let address: SocketAddr = match address.strip_prefix("localhost:") {
        Some(port) => {
            let port = port.parse().map_err(|_| bad_address(address))?;
            SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)
        }
        None => address.parse().map_err(|_| bad_address(address))?,
    };
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{address} is not a loopback address, and connections are not encrypted yet: use 127.0.0.1 or [::1]"
            ),
        ));
    }
    Ok(address)
}

fn bad_address(address: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("`{address}` is not an address (like 127.0.0.1:7400)"),
    )
}

impl Transport for TcpTransport {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let address = loopback(address);
        Box::pin(async move {
            let stream = TcpStream::connect(address?).await?;
            stream.set_nodelay(true)?;
            Ok(BoxedIo::new(stream))
        })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let address = loopback(address);
        Box::pin(async move {
            let listener = TcpListener::bind(address?).await?;
            Ok(Box::pin(Accepts(listener)) as Incoming)
        })
    }
}

struct Accepts(TcpListener);

impl Stream for Accepts {
    type Item = io::Result<BoxedIo>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_accept(cx).map(|accepted| {
            Some(accepted.and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(BoxedIo::new(stream))
            }))
        })
    }
}

/// The transport as tonic wants a connector. The address is ours: the URI that tonic hands in is
/// only a name.
#[derive(Clone)]
pub(crate) struct Connector {
    transport: Arc<dyn Transport>,
    address: String,
}

impl Connector {
    pub(crate) fn new(transport: Arc<dyn Transport>, address: String) -> Self {
        Self { transport, address }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({})", self.address)
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<BoxedIo>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connecting = self.transport.connect(&self.address);
        Box::pin(async move { connecting.await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R22: no plaintext listener and no plaintext call beyond loopback.
    #[test]
    fn only_loopback_is_reached_in_plain_text() {
        for good in ["127.0.0.1:1", "127.9.9.9:7400", "[::1]:7400", "localhost:7400"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for far in ["10.0.0.1:7400", "0.0.0.0:7400", "[::]:7400", "192.0.2.1:80"] {
            assert_eq!(loopback(far).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{far}");
        }
        for bad in ["", "127.0.0.1", "localhost:x", "example.org:80", "127.0.0.1:99999"] {
            assert_eq!(loopback(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }
}
