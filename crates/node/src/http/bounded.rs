//! The listener of the endpoints, bounded: so many connections at once, none of them silent, half
//! asked or old.
//!
//! Whoever reaches the port needs no password, so a handful of connections that say nothing, or
//! half a request, must keep neither a scrape nor a probe of `/livez` out, nor take the node's
//! descriptors. A request has to be whole within seconds. When all places are taken, the connection
//! that has owed its request for longest gives way to a new one; only if none owes anything is the
//! new one closed. Both are counted.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many connections are open at most. A scraper or two, a probe and a person take fewer than
/// ten.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// A request has to be whole, and its answer begun, this long after it began, or after the
/// connection was made.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// A connection on which no byte came or went for so long is closed.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// And so is one that is as old as this, however busy: a trickle of bytes is no silence.
const AGE_MAX: Duration = Duration::from_secs(600);

pub(super) struct Bounded {
    listener: TcpListener,
    places: Places,
    refused: Arc<AtomicU64>,
}

impl Bounded {
    /// `refused` counts connections that found no place, and those that gave theirs up.
    pub(super) fn new(listener: TcpListener, refused: Arc<AtomicU64>) -> Self {
        Self { listener, places: Places::default(), refused }
    }
}

impl Listener for Bounded {
    type Io = Held<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Retries by itself when the system has no descriptors left.
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let (place, is_loss) = self.places.take();
            self.refused.fetch_add(u64::from(is_loss), Ordering::Relaxed);
            if let Some(place) = place {
                return (Held::new(stream, place), address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Places(VecDeque<Weak<Place>>);

/// One connection's place; it ends with the connection.
struct Place {
    /// It has to give way.
    evicted: AtomicBool,
    waker: AtomicWaker,
    /// Since when it owes the rest of a request; none: it is idle after an answer.
    owes: Mutex<Option<Instant>>,
}

impl Place {
    fn owes(&self) -> Option<Instant> {
        *self.owes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_owes(&self, since: Option<Instant>) {
        *self.owes.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

impl Places {
    /// A place, if there is one or somebody gives way; and whether somebody was turned away for the
    /// lack of one.
    fn take(&mut self) -> (Option<Arc<Place>>, bool) {
        self.0.retain(|place| place.strong_count() > 0);
        let is_full = self.0.len() >= CONNECTIONS_MAX;
        if is_full {
            let open = self.0.iter().filter_map(Weak::upgrade);
            let owing = open.filter_map(|place| Some((place.owes()?, place)));
            let Some((_, longest)) = owing.min_by_key(|(since, _)| *since) else {
                return (None, true);
            };
            longest.evicted.store(true, Ordering::Relaxed);
            longest.waker.wake();
            // Its connection ends by itself; its place is taken now.
            self.0.retain(|place| !std::ptr::eq(place.as_ptr(), Arc::as_ptr(&longest)));
        }
        let place = Arc::new(Place {
            evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            owes: Mutex::new(Some(Instant::now())),
        });
        self.0.push_back(Arc::downgrade(&place));
        (Some(place), is_full)
    }
}

/// A connection with its place and its deadline.
pub(super) struct Held<S> {
    stream: S,
    end: Instant,
    deadline: Pin<Box<Sleep>>,
    place: Arc<Place>,
}

impl<S> Held<S> {
    fn new(stream: S, place: Arc<Place>) -> Self {
        let now = Instant::now();
        let deadline = Box::pin(sleep_until(now + REQUEST_WITHIN));
        Self { stream, end: now + AGE_MAX, deadline, place }
    }

    /// Fails once the deadline has passed, or its place is needed. Whoever polls is woken then.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.place.waker.register(cx.waker());
        if self.place.evicted.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Bytes have come: from the first of them on the request is owed.
    fn was_asked(&mut self) {
        let now = Instant::now();
        if self.place.owes().is_none() {
            self.place.set_owes(Some(now));
            self.deadline.as_mut().reset((now + REQUEST_WITHIN).min(self.end));
        }
    }

    /// An answer goes out: the request was whole.
    fn has_answered(&mut self) {
        self.place.set_owes(None);
        self.deadline.as_mut().reset((Instant::now() + SILENT_MAX).min(self.end));
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
            this.was_asked();
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
            this.has_answered();
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

    fn held(places: &mut Places) -> (Held<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(64);
        (Held::new(ours, places.take().0.unwrap()), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_and_gives_up_its_place() {
        let mut places = Places::default();
        let (mut held, mut theirs) = held(&mut places);
        let start = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(REQUEST_WITHIN / 2).await;
            theirs.write_all(b"x").await.unwrap();
            assert_eq!(held.read_u8().await.unwrap(), b'x');
            held.write_all(b"y").await.unwrap();
        }
        assert_eq!(held.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), (REQUEST_WITHIN / 2 * 3 + SILENT_MAX).as_secs());
        drop(held);
        assert!(places.0[0].upgrade().is_none());
    }

    /// However busily half a request is sent, it has to be whole in time.
    #[tokio::test(start_paused = true)]
    async fn a_request_has_to_be_whole_in_time() {
        let (mut held, mut theirs) = held(&mut Places::default());
        let start = Instant::now();
        let error = loop {
            tokio::time::sleep(REQUEST_WITHIN / 5).await;
            theirs.write_all(b"x").await.unwrap();
            if let Err(error) = held.read_u8().await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), REQUEST_WITHIN);
        assert!(held.write_all(b"late").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_never_idle_ends_by_its_age() {
        let (mut held, mut theirs) = held(&mut Places::default());
        let start = Instant::now();
        let error = loop {
            tokio::time::sleep(REQUEST_WITHIN / 5).await;
            theirs.write_all(b"x").await.unwrap();
            if let Err(error) = held.read_u8().await {
                break error;
            }
            held.write_all(b"y").await.unwrap();
            theirs.read_u8().await.unwrap();
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), AGE_MAX.as_secs());
    }

    /// Two hundred half requests, and a probe comes in all the same; who has been answered keeps
    /// its place.
    #[tokio::test(start_paused = true)]
    async fn half_a_request_gives_way_to_a_new_connection() {
        let mut places = Places::default();
        let (mut scraper, mut scrapes) = held(&mut places);
        scrapes.write_all(b"x").await.unwrap();
        scraper.read_u8().await.unwrap();
        scraper.write_all(b"y").await.unwrap();
        let mut half = Vec::new();
        for _ in 0..200 {
            tokio::time::advance(Duration::from_millis(1)).await;
            half.push(held(&mut places));
        }
        let (mut probe, mut probes) = held(&mut places);
        probes.write_all(b"x").await.unwrap();
        assert_eq!(probe.read_u8().await.unwrap(), b'x');
        let evicted = half[0].0.read_u8().await.unwrap_err();
        assert_eq!(evicted.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(places.0.len(), CONNECTIONS_MAX);
        scraper.write_all(b"y").await.expect("it owes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_owes_anything_a_new_connection_is_closed() {
        let mut places = Places::default();
        let mut answered = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let (mut held, theirs) = held(&mut places);
            held.write_all(b"y").await.unwrap();
            answered.push((held, theirs));
        }
        let (none, is_loss) = places.take();
        assert!(none.is_none() && is_loss && answered.len() == CONNECTIONS_MAX);
    }
}
