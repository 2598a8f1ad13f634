//! What a call says about the one who was called: for circuit breakers.

use std::error::Error;

use control::breaker::{Failure, Outcome};
use node::network::ConnectError;
use tonic::Status;

/// `None`: nothing. It was not tried, because the last connection failed a moment ago.
pub(crate) fn of_status(status: &Status) -> Option<Outcome> {
    // What tonic says of a connection that failed or broke has a source; what the other side says
    // has none, and is an answer, whatever it says.
    let Some(mut error) = status.source() else { return Some(Outcome::Answered) };
    loop {
        if let Some(ConnectError::Resting { .. }) = error.downcast_ref::<ConnectError>() {
            return None;
        }
        match error.source() {
            Some(source) => error = source,
            None => return Some(Outcome::Failed(Failure::NotReached)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use futures_util::future::BoxFuture;
    use node::network::{ChannelTiming, Channels, Connection, Listener, Network};
    use trust::{Expected, Role};

    use super::*;
    use crate::wire::proto::worker_control_client::WorkerControlClient;
    use crate::wire::seal;

    /// A network on which nobody is.
    struct Nobody;

    impl Network for Nobody {
        fn connect(
            &self,
            address: &str,
            _: Expected,
        ) -> BoxFuture<'static, Result<Connection, ConnectError>> {
            let address = address.to_owned();
            let error = io::ErrorKind::ConnectionRefused.into();
            Box::pin(async { Err(ConnectError::Io { address, error }) })
        }

        fn listen(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<Listener>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    /// Whatever the other side says is an answer. A connection that failed counts once, and not
    /// again for every call that comes while it rests.
    #[tokio::test]
    async fn refusals_are_answers_and_a_rest_is_nothing() {
        let answers = [
            Status::unavailable("this worker is shutting down"),
            Status::resource_exhausted("too many questions wait for this worker; ask again"),
            Status::permission_denied("a worker speaks for itself only"),
            Status::deadline_exceeded("this worker did not answer in time"),
        ];
        for status in answers {
            assert_eq!(of_status(&status), Some(Outcome::Answered), "{status}");
        }
        let channels = Channels::new(Arc::new(Nobody), ChannelTiming::paced(100.0));
        let expected = Expected { role: Role::Worker, node: None };
        let channel = channels.to(SocketAddr::from(([127, 0, 0, 1], 9)), expected);
        let mut crew = WorkerControlClient::new(channel);
        let failed = crew.drain(seal(&()).unwrap()).await.unwrap_err();
        assert_eq!(of_status(&failed), Some(Outcome::Failed(Failure::NotReached)), "{failed:?}");
        let rests = crew.drain(seal(&()).unwrap()).await.unwrap_err();
        assert_eq!(of_status(&rests), None, "{rests:?}");
    }
}
