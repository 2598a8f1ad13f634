//! The listener of the endpoints, bounded: so many connections at once, none of them silent or old.
//!
//! Whoever reaches the port needs no password, so a handful of connections that say nothing must not keep a scrape out
//! for ever, nor take the node's descriptors. One too many is closed at once and counted.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many connections are open at most. A scraper or two, a probe and a person take fewer than ten.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// A connection on which no byte came or went for so long is closed.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// And so is one that is as old as this, however busy: a trickle of bytes is no silence.
const AGE_MAX: Duration = Duration::from_secs(600);

pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    refused: Arc<AtomicU64>,
}

impl Bounded {
    /// `refused` counts connections that found no place.
    pub(super) fn new(listener: TcpListener, refused: Arc<AtomicU64>) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)), refused }
    }
}

impl Listener for Bounded {
    type Io = Held<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Retries by itself when the system has no descriptors left.
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => return (Held::new(stream, place), address),
                Err(_) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with its place and its deadline.
pub(super) struct Held<S> {
    stream: S,
    end: Instant,
    deadline: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<S> Held<S> {
    fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        let now = Instant::now();
        let deadline = Box::pin(sleep_until(now + SILENT_MAX));
        Self { stream, end: now + AGE_MAX, deadline, _place: place }
    }

    /// Fails once the deadline has passed. Whoever polls is woken then.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    fn moved(&mut self) {
        let until = (Instant::now() + SILENT_MAX).min(self.end);
        self.deadline.as_mut().reset(until);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Held<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.moved();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Held<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(cx)?;
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        if matches!(polled, Poll::Ready(Ok(1..))) {
            this.moved();
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check(cx)?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn held() -> (Held<DuplexStream>, DuplexStream, Arc<Semaphore>) {
        let places = Arc::new(Semaphore::new(1));
        let (ours, theirs) = duplex(64);
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        (Held::new(ours, place), theirs, places)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_and_gives_up_its_place() {
        let (mut held, mut theirs, places) = held();
        let start = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(SILENT_MAX / 2).await;
            theirs.write_all(b"x").await.unwrap();
            assert_eq!(held.read_u8().await.unwrap(), b'x');
        }
        assert_eq!(held.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), (SILENT_MAX / 2 * 3 + SILENT_MAX).as_secs());
        assert_eq!(places.available_permits(), 0);
        drop(held);
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_of_bytes_does_not_keep_a_connection_open() {
        let (mut held, mut theirs, _places) = held();
        let start = Instant::now();
        let error = loop {
            tokio::time::sleep(SILENT_MAX / 2).await;
            theirs.write_all(b"x").await.unwrap();
            if let Err(error) = held.read_u8().await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), AGE_MAX.as_secs());
        assert!(held.write_all(b"late").await.is_err());
    }
}
