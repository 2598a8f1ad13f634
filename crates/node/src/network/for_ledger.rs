//! The ledger's transport over the nodes' network: Raft between members of one role, over mutual
//! TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use ledger::{BoxedIo, Incoming, Transport};
use trust::{Expected, Role};

use super::{ConnectError, Network};

/// Connects ledger nodes of one role: managers among themselves, or gates.
#[derive(Clone)]
pub struct LedgerTransport {
    network: Arc<dyn Network>,
    role: Role,
}

impl LedgerTransport {
    #[must_use]
    pub fn new(network: Arc<dyn Network>, role: Role) -> Self {
        Self { network, role }
    }
}

/// A refused connection stays one: it is evidence that nobody listens there.
fn as_io(error: ConnectError) -> io::Error {
    match error.was_refused() {
        true => io::Error::new(io::ErrorKind::ConnectionRefused, error),
        false => io::Error::other(error),
    }
}

impl Transport for LedgerTransport {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let expected = Expected { role: self.role, node: None };
        let connecting = self.network.connect(address, expected);
        Box::pin(async move { connecting.await.map(BoxedIo::new).map_err(as_io) })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let parsed = address.parse::<SocketAddr>().map_err(|_| {
            let why = format!("`{address}` is not an address to listen on (like 10.0.0.5:7400)");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        });
        let (network, role) = (Arc::clone(&self.network), self.role);
        Box::pin(async move {
            let listener = network.listen(parsed?).await?;
            let incoming = listener.incoming.filter_map(move |connection| {
                // The role matrix lets a worker or a client open a connection to a manager; a vote
                // is not theirs. They are let go at once, before a byte of theirs is read, and
                // counted.
                let caller = connection.caller();
                let peer = caller.peer.as_ref().map(|peer| &peer.identity);
                let accepted = match peer {
                    Some(peer) if peer.role != role => {
                        let why = format!("a {} has no place in the group of {role}s", peer.role);
                        network.refused("not_of_group", caller, &why);
                        None
                    }
                    peer => {
                        let node = peer.map(|peer| peer.node);
                        Some(Ok(BoxedIo::new(connection).from_peer(node)))
                    }
                };
                std::future::ready(accepted)
            });
            Ok(Box::pin(incoming) as Incoming)
        })
    }
}
