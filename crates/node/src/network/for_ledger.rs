//! The ledger's transport over the nodes' network: Raft between members of one role, over mutual TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use ledger::{BoxedIo, Incoming, Transport};
use trust::{Expected, Role};

use super::Network;

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

impl Transport for LedgerTransport {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let expected = Expected { role: self.role, node: None };
        let connecting = self.network.connect(address, expected);
        Box::pin(async move { connecting.await.map(BoxedIo::new).map_err(io::Error::other) })
    }

    fn listen(&self, address: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let parsed = address.parse::<SocketAddr>().map_err(|_| {
            let why = format!("`{address}` is not an address to listen on (like 10.0.0.5:7400)");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        });
        let (network, role) = (Arc::clone(&self.network), self.role);
        Box::pin(async move {
            let listener = network.listen(parsed?).await?;
            let incoming = listener.incoming.map(move |connection| {
                // The role matrix lets a worker or a client open a connection to a manager; a vote is not theirs.
                let caller = connection.caller();
                match &caller.peer {
                    Some(peer) if peer.identity.role != role => Err(io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        format!(
                            "{} {} at {} has no place in the ledger's group of {role}s",
                            peer.identity.role, peer.identity.node, caller.address
                        ),
                    )),
                    _ => Ok(BoxedIo::new(connection)),
                }
            });
            Ok(Box::pin(incoming) as Incoming)
        })
    }
}
