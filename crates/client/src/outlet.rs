//! The one way out for requests: asks the gate, counts what passes.
//!
//! Who is refused is not answered. An attempt whose gate is shut is being stopped; until then its
//! requests wait, and are counted as begun and never sent when their virtual users are cancelled.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Mono;
use crate::gate::{SendGate, Standing};
use crate::issued::IssuedFile;

/// How often who waits for the first grant looks for it.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct Outlet {
    gate: Arc<SendGate>,
    issued: Option<Arc<IssuedFile>>,
}

impl Outlet {
    /// Always open, nothing counted beyond the windows: a run on this machine alone.
    pub fn free() -> Outlet {
        Outlet { gate: SendGate::always_open(), issued: None }
    }

    pub fn new(gate: Arc<SendGate>, issued: Option<Arc<IssuedFile>>) -> Outlet {
        Outlet { gate, issued }
    }

    pub fn gate(&self) -> &Arc<SendGate> {
        &self.gate
    }

    pub fn issued(&self) -> Option<&Arc<IssuedFile>> {
        self.issued.as_ref()
    }

    /// Before the first byte of a request. `now`: a reading since which this thread has waited for
    /// nothing.
    #[inline]
    pub(crate) async fn leave(&self, now: Mono) {
        if !self.gate.may_send(now) {
            Box::pin(self.wait()).await;
        }
        if let Some(issued) = &self.issued {
            issued.add_issued();
        }
    }

    /// Before anything that is not a request: a connection, a handshake.
    pub(crate) async fn reach_out(&self) {
        if self.gate.is_leased() && !self.gate.may_send(Mono::now()) {
            Box::pin(self.wait()).await;
        }
    }

    /// Until the first grant comes; for ever where none can come any more.
    async fn wait(&self) {
        loop {
            match self.gate.standing(Mono::now()) {
                Standing::Open { .. } | Standing::AlwaysOpen => return,
                Standing::Lapsed | Standing::Closed => std::future::pending::<()>().await,
                Standing::Asking => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Before a further piece of something, after a wait.
    #[inline]
    pub(crate) fn may_continue(&self) -> bool {
        !self.gate.is_leased() || self.gate.may_send(Mono::now())
    }
}
