//! Connections that stand still while others between the same hosts go on, as behind a middlebox
//! that has forgotten one of them.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use base::lock;
use fence::NodeId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::transport::Traced;

/// Whoever waits for a connection that stands still looks at it again after this.
const LOOK: Duration = Duration::from_millis(20);

/// What the connections between two managers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They replicate the ledger.
    Ledger,
    /// Everything else: checkpoints, relays, drains.
    Services,
}

/// What is wrong with connections, beyond what turmoil does to links.
#[derive(Default)]
pub struct Conditions {
    /// Which connections of a manager to other managers stand still.
    held: Mutex<BTreeMap<NodeId, Purpose>>,
}

impl Conditions {
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
}

impl SimConnection {
    fn is_held(&self) -> bool {
        self.purpose.is_some_and(|purpose| self.conditions.is_held(self.ends, purpose))
    }

    /// Has the task woken after a while.
    fn wait(&mut self, context: &mut Context<'_>) {
        loop {
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(LOOK)));
            if waiting.as_mut().poll(context).is_pending() {
                return;
            }
            self.waiting = None;
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
            self.wait(context);
            return Poll::Pending;
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
