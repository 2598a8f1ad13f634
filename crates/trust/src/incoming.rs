//! An accept loop that no slow peer can stop: each handshake is a task, their number is bounded, in
//! all and by source address, and the oldest gives way.
//!
//! Waiting for a free place would let a handful of silent connections close the door for everybody.
//! So at the bound the oldest unfinished handshake is dropped: an honest one takes milliseconds and
//! is never the oldest for long.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::handshake::{Acceptor, HandshakeError, Secured};

/// A listener that has no file descriptors left fails at once, again and again; this is the pause
/// between.
const LISTENER_PAUSE: Duration = Duration::from_millis(100);

/// One source address has at most one in so many of the handshakes that may be under way.
const SHARE_OF_A_SOURCE: usize = 4;

/// The bound of [`Incoming`].
#[derive(Clone, Copy, Debug)]
pub struct IncomingLimits {
    /// Handshakes under way at once; a quarter of them from one address.
    pub handshakes_max: usize,
}

impl Default for IncomingLimits {
    fn default() -> Self {
        Self { handshakes_max: 256 }
    }
}

/// What came out of the listener.
#[derive(Debug)]
pub enum Arrival {
    Connected {
        from: SocketAddr,
        stream: Box<Secured<TcpStream>>,
    },
    /// For the log and for counters (by [`HandshakeError::kind`]).
    Failed {
        from: SocketAddr,
        error: HandshakeError,
    },
    /// The listener itself failed; it is tried again at the next call.
    Listener {
        error: io::Error,
    },
}

type Outcome = (SocketAddr, Result<Box<Secured<TcpStream>>, HandshakeError>);

/// A listener with mutual TLS. Handshakes go on while the caller does something else.
pub struct Incoming {
    listener: TcpListener,
    acceptor: Acceptor,
    limits: IncomingLimits,
    handshakes: JoinSet<Outcome>,
    /// Oldest first.
    begun: VecDeque<(SocketAddr, AbortHandle)>,
}

impl Incoming {
    #[must_use]
    pub fn new(listener: TcpListener, acceptor: Acceptor, limits: IncomingLimits) -> Self {
        let handshakes = JoinSet::new();
        Self { listener, acceptor, limits, handshakes, begun: VecDeque::new() }
    }

    /// # Errors
    /// If the socket cannot say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next peer, or for the next failure. Safe to cancel: nothing is lost.
    pub async fn next(&mut self) -> Arrival {
        loop {
            tokio::select! {
                biased;
                Some(done) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    match done {
                        Ok((from, Ok(stream))) => return Arrival::Connected { from, stream },
                        Ok((from, Err(error))) => return Arrival::Failed { from, error },
                        // Aborted: it was reported when it was evicted.
                        Err(_) => {}
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        if let Some(evicted) = self.begin(stream, from) {
                            return Arrival::Failed { from: evicted, error: HandshakeError::Evicted };
                        }
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        tokio::time::sleep(LISTENER_PAUSE).await;
                        return Arrival::Listener { error };
                    }
                }
            }
        }
    }

    /// Starts a handshake; says whose was dropped for it.
    fn begin(&mut self, stream: TcpStream, from: SocketAddr) -> Option<SocketAddr> {
        self.begun.retain(|(_, task)| !task.is_finished());
        // Nobody knows yet who it is, only where it comes from: who has its share there gives up
        // one of its own.
        let max = self.limits.handshakes_max.max(1);
        let share = max.div_ceil(SHARE_OF_A_SOURCE);
        let is_of_source = |(other, _): &(SocketAddr, AbortHandle)| other.ip() == from.ip();
        let gives_way = if self.begun.iter().filter(|one| is_of_source(one)).count() >= share {
            self.begun.iter().position(is_of_source)
        } else if self.begun.len() >= max {
            Some(0)
        } else {
            None
        };
        let evicted = gives_way.and_then(|place| self.begun.remove(place)).map(|(from, task)| {
            task.abort();
            from
        });
        let acceptor = self.acceptor.clone();
        let task = self.handshakes.spawn(async move {
            // Small messages go out at once; a socket that cannot do it still works.
            let _ = stream.set_nodelay(true);
            (from, acceptor.accept(stream).await.map(Box::new))
        });
        self.begun.push_back((from, task));
        evicted
    }
}

/// Errors that the kernel reports about a connection that is gone already, not about the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
