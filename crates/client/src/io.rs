//! The byte streams that HTTP runs on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// TLS state is large and rare next to plain sockets, so it is boxed.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    TlsUnix(Box<TlsStream<UnixStream>>),
}

impl Stream {
    /// Whether the peer has been heard of since the last answer ended: on an idle connection that
    /// can only be a close, or bytes that nobody asked for. Costs no system call.
    pub fn has_news(&self, context: &mut Context<'_>) -> bool {
        let ready = match self {
            Stream::Tcp(tcp) => tcp.poll_read_ready(context),
            Stream::Unix(unix) => unix.poll_read_ready(context),
            Stream::Tls(tls) => tls.get_ref().0.poll_read_ready(context),
            Stream::TlsUnix(tls) => tls.get_ref().0.poll_read_ready(context),
        };
        ready.is_ready()
    }
}

impl Stream {
    /// The TLS session, if there is one.
    pub fn session(&self) -> Option<&rustls::ClientConnection> {
        match self {
            Stream::Tls(tls) => Some(tls.get_ref().1),
            Stream::TlsUnix(tls) => Some(tls.get_ref().1),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    pub fn peer_address(&self) -> Option<std::net::SocketAddr> {
        match self {
            Stream::Tcp(tcp) => tcp.peer_addr().ok(),
            Stream::Tls(tls) => tls.get_ref().0.peer_addr().ok(),
            Stream::Unix(_) | Stream::TlsUnix(_) => None,
        }
    }
}

macro_rules! each {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($inner) => $call,
            Stream::Unix($inner) => $call,
            Stream::Tls($inner) => $call,
            Stream::TlsUnix($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, inner => Pin::new(inner).poll_shutdown(context))
    }
}
