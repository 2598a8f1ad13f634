//! The simulated network under the nodes' own gRPC: turmoil's sockets, with every byte in the
//! trace.

use std::io;

use futures_util::future::BoxFuture;
use futures_util::stream;
use ledger::{BoxedIo, Incoming, Transport};
use turmoil::net::{TcpListener, TcpStream};

use crate::transport::Traced;

/// The port that every node listens on.
pub const PORT: u16 = 7400;

/// The network as one host sees it.
pub struct SimTransport {
    /// Number of the host, for the trace.
    pub host: u64,
}

impl Transport for SimTransport {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<BoxedIo>> {
        let (host, address) = (self.host, address.to_owned());
        Box::pin(async move {
            let stream = TcpStream::connect(address.as_str()).await?;
            Ok(BoxedIo::new(Traced::new(host, stream)?))
        })
    }

    fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Incoming>> {
        let host = self.host;
        Box::pin(async move {
            // turmoil hosts listen on "any address"; the one that the node was given is its name on
            // the network.
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            let incoming = stream::unfold(listener, move |listener| async move {
                let accepted = listener.accept().await;
                let io =
                    accepted.and_then(|(stream, _)| Traced::new(host, stream)).map(BoxedIo::new);
                Some((io, listener))
            });
            Ok(Box::pin(incoming) as Incoming)
        })
    }
}
