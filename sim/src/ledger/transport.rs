//! The simulated network under the nodes' own gRPC: turmoil's sockets, with every byte in the trace.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream;
use ledger::{BoxedIo, Incoming, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use crate::trace;

/// The port that every node listens on.
pub const PORT: u16 = 7400;

/// The network as one host sees it.
pub struct SimTransport {
    /// Number of the host, for the trace.
    pub host: u64,
}

impl Transport for SimTransport {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let (host, address) = (self.host, address.to_owned());
        Box::pin(async move {
            let stream = TcpStream::connect(address.as_str()).await?;
            Ok(BoxedIo::new(Traced::new(host, stream)?))
        })
    }

    fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let host = self.host;
        Box::pin(async move {
            // turmoil hosts listen on "any address"; the one that the node was given is its name on the network.
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            let incoming = stream::unfold(listener, move |listener| async move {
                let accepted = listener.accept().await;
                let io =
                    accepted.and_then(|(stream, _)| Traced::new(host, stream)).map(BoxedIo::new);
                Some((io, listener))
            });
            Ok(Box::pin(incoming) as Incoming)
        })
    }
}

/// A socket that tells the trace what it carries.
struct Traced {
    host: u64,
    peer: u64,
    stream: TcpStream,
}

impl Traced {
    fn new(host: u64, stream: TcpStream) -> io::Result<Self> {
        let peer = stream.peer_addr()?;
        let ip = match peer.ip() {
            std::net::IpAddr::V4(ip) => u64::from(u32::from(ip)),
            std::net::IpAddr::V6(ip) => u128::from(ip) as u64,
        };
        Ok(Self { host, peer: (ip & 0xffff) << 16 | u64::from(peer.port()), stream })
    }
}

impl AsyncRead for Traced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            trace::bytes(self.host, self.peer, false, &buffer.filled()[before..]);
        }
        polled
    }
}

impl AsyncWrite for Traced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            trace::bytes(self.host, self.peer, true, &bytes[..written]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
