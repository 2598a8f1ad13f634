//! Connections that stand still while others between the same hosts go on, as behind a middlebox
//! that has forgotten one of them; and connections on a network that loses packets, which are late
//! (see [`super::stream`]).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use base::lock;
use fastrand::Rng;
use fence::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::stream::{RETRANSMIT, Stream};
use crate::transport::Traced;

/// Whoever waits for a connection that stands still looks at it again after this.
const LOOK: Duration = Duration::from_millis(20);

/// When the first packet of a connection is sent again: Linux's TCP_TIMEOUT_INIT.
const FIRST_RETRANSMIT: Duration = Duration::from_secs(1);
/// What is read from a socket at a time.
const READ_BYTES: usize = 16 << 10;

/// What the connections between two managers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They replicate the ledger.
    Ledger,
    /// Everything else: checkpoints, relays, drains.
    Services,
}

/// What is wrong with connections, beyond what turmoil does to links.
pub struct Conditions {
    /// Of a hundred packets.
    lost: Mutex<u8>,
    rng: Mutex<Rng>,
    /// Which connections of a manager to other managers stand still.
    held: Mutex<BTreeMap<NodeId, Purpose>>,
}

impl Conditions {
    pub fn new(seed: u64) -> Self {
        let rng = Mutex::new(Rng::with_seed(seed ^ 0x6c6f_7373));
        Self { lost: Mutex::default(), rng, held: Mutex::default() }
    }

    /// So many of a hundred packets are lost from now on.
    pub fn lose(&self, percent: u8) {
        *lock(&self.lost) = percent;
    }

    fn lost(&self) -> u8 {
        *lock(&self.lost)
    }

    /// Whether the next packet is.
    pub fn is_lost(&self) -> bool {
        let lost = self.lost();
        lost > 0 && lock(&self.rng).u8(..100) < lost
    }

    /// How much longer a connection takes to make: its first packet and the answer come again after
    /// a second, then two; those of the handshake after [`RETRANSMIT`], then twice that.
    pub fn late_by(&self) -> Duration {
        let mut late = Duration::ZERO;
        for first in [FIRST_RETRANSMIT, RETRANSMIT, RETRANSMIT] {
            let mut again = first;
            // There and back.
            while self.is_lost() || self.is_lost() {
                late += again;
                again *= 2;
            }
        }
        late
    }

    pub fn hold(&self, manager: NodeId, purpose: Purpose) {
        lock(&self.held).insert(manager, purpose);
    }

    pub fn release(&self, manager: NodeId) {
        lock(&self.held).remove(&manager);
    }

    pub fn release_all(&self) {
        lock(&self.held).clear();
    }

    fn is_held(&self, ends: [NodeId; 2], purpose: Purpose) -> bool {
        let held = lock(&self.held);
        ends.iter().any(|end| held.get(end) == Some(&purpose))
    }
}

/// One end of a connection.
pub struct SimConnection {
    pub stream: Traced,
    /// The nodes at both ends.
    pub ends: [NodeId; 2],
    /// `None`: it is not one between managers, and never stands still by itself.
    pub purpose: Option<Purpose>,
    pub conditions: Arc<Conditions>,
    pub waiting: Option<Pin<Box<Sleep>>>,
    pub late: Late,
}

/// What has arrived on a lossy network and is not read yet.
pub struct Late {
    made: Instant,
    stream: Stream<Vec<u8>>,
    ready: VecDeque<u8>,
    ended: bool,
}

impl Default for Late {
    fn default() -> Self {
        let (stream, ready) = (Stream::default(), VecDeque::new());
        Self { made: Instant::now(), stream, ready, ended: false }
    }
}

impl SimConnection {
    fn is_held(&self) -> bool {
        self.purpose.is_some_and(|purpose| self.conditions.is_held(self.ends, purpose))
    }

    /// Has the task woken after this time.
    fn wait(&mut self, time: Duration, context: &mut Context<'_>) {
        let mut waiting = Box::pin(sleep(time));
        if waiting.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        self.waiting = Some(waiting);
    }

    /// Takes what has arrived, each read as a packet that may have been lost before.
    fn gather(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let (percent, now) = (self.conditions.lost(), self.late.made.elapsed());
        let mut bytes = [0; READ_BYTES];
        while !self.late.ended {
            let mut part = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut part) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => {}
            }
            self.late.ended = part.filled().is_empty();
            if !self.late.ended {
                let packet = part.filled().to_vec();
                let out = {
                    let mut rng = lock(&self.conditions.rng);
                    self.late.stream.send(packet, percent, now, &mut rng)
                };
                self.late.ready.extend(out.into_iter().flatten());
            }
        }
        while self.late.stream.again().is_some_and(|again| again <= now) {
            let mut rng = lock(&self.conditions.rng);
            let out = self.late.stream.resend(percent, now, &mut rng);
            self.late.ready.extend(out.into_iter().flatten());
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        let late = &self.late;
        self.conditions.lost() > 0 || !late.ready.is_empty() || late.stream.again().is_some()
    }

    fn read_late(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.gather(context)?;
        let late = &mut self.late;
        if !late.ready.is_empty() {
            let count = late.ready.len().min(buffer.remaining());
            let bytes: Vec<u8> = late.ready.drain(..count).collect();
            buffer.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        match late.stream.again() {
            Some(again) => {
                let time = again.saturating_sub(late.made.elapsed());
                self.wait(time, context);
                Poll::Pending
            }
            None if late.ended => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

impl AsyncRead for SimConnection {
    /// What was sent lies there, and comes out when the connection goes on.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_held() {
            self.wait(LOOK, context);
            return Poll::Pending;
        }
        if self.is_late() {
            return self.read_late(context, buffer);
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SimConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
