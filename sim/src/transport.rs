//! Simulated sockets with every byte in the trace.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

use crate::trace;

/// A socket that tells the trace what it carries.
pub struct Traced {
    host: u64,
    peer: u64,
    stream: TcpStream,
}

impl Traced {
    /// # Errors
    /// If the socket is closed already.
    pub fn new(host: u64, stream: TcpStream) -> io::Result<Self> {
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
