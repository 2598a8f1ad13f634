//! What every protocol client asks before it sends: the permit is checked, and the request is
//! counted as issued.
//!
//! A request that is refused gets no error. Its attempt is being stopped; until then the request
//! waits, and when its virtual user is cancelled it counts as begun and never sent.

use base::clock;

use crate::issued::IssuedFile;
use crate::send_permit::{PermitState, SendPermit};
use fence::Moment;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two looks for the first grant.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct SendControl {
    permit: Arc<SendPermit>,
    issued: Option<Arc<IssuedFile>>,
}

impl SendControl {
    /// For a run on this machine alone: always permitted, and nothing is counted beyond the
    /// windows.
    pub fn free() -> SendControl {
        SendControl { permit: SendPermit::always_open(), issued: None }
    }

    pub fn new(permit: Arc<SendPermit>, issued: Option<Arc<IssuedFile>>) -> SendControl {
        SendControl { permit, issued }
    }

    pub fn permit(&self) -> &Arc<SendPermit> {
        &self.permit
    }

    pub fn issued(&self) -> Option<&Arc<IssuedFile>> {
        self.issued.as_ref()
    }

    /// Before the first byte of a request. `now`: a reading since which this thread has waited for
    /// nothing.
    #[inline]
    pub async fn before_request(&self, now: Moment) {
        if !self.permit.may_send(now) {
            Box::pin(self.wait()).await;
        }
        if let Some(issued) = &self.issued {
            issued.add_issued();
        }
    }

    /// Before anything that is not a request: a connection, a handshake.
    pub async fn before_connect(&self) {
        if self.permit.is_leased() && !self.permit.may_send(clock::now()) {
            Box::pin(self.wait()).await;
        }
    }

    /// Until the first grant comes; for ever where none can come any more.
    async fn wait(&self) {
        loop {
            match self.permit.standing(clock::now()) {
                PermitState::Open { .. } | PermitState::AlwaysOpen => return,
                PermitState::Lapsed | PermitState::Closed => std::future::pending::<()>().await,
                PermitState::Asking => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Before a further piece of something, after a wait.
    #[inline]
    pub fn may_continue(&self) -> bool {
        !self.permit.is_leased() || self.permit.may_send(clock::now())
    }
}
