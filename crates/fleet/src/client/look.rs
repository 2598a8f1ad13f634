//! Looks at the managers themselves: who of them answers, and whether they can decide anything
//! together. What gossip says of a node is a hint; this is what was asked.

use std::time::Duration;

use super::error::{Failure, FleetError};
use super::{FleetClient, Last};
use crate::wire::proto;

impl FleetClient {
    /// Asks the manager at this address, and nobody else.
    ///
    /// # Errors
    /// Why it does not answer, or answers that it cannot serve.
    pub async fn answers_at(&self, address: &str, within: Duration) -> Result<String, FleetError> {
        let one = Self {
            managers: [address.to_owned()].into(),
            deadline: within,
            notice: None,
            last: std::sync::Arc::new(std::sync::Mutex::new(Last::default())),
            ..self.clone()
        };
        one.managers().await.map(|reply| reply.node)
    }

    /// Whether a majority of the managers follows the leader now: something is read that only such
    /// a majority can confirm.
    ///
    /// # Errors
    /// Why nobody can.
    pub async fn can_decide(&self) -> Result<(), FleetError> {
        let list =
            proto::ListRequest { limit: 1, ended: false, prefix: String::new(), live: false };
        self.list_of(list).await.map(|_| ())
    }
}

impl Failure {
    /// Its machine says that nobody listens there.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        matches!(&self.why, super::Why::Connect(error) if error.was_refused())
    }

    /// Somebody answered, and cannot do it now.
    #[must_use]
    pub fn is_an_answer(&self) -> bool {
        matches!(&self.why, super::Why::NotNow(_))
    }
}
