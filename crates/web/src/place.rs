//! Where the page is served: on loopback, at the usual port or the next free one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// Where nothing else was asked for.
pub const PORT: u16 = 7600;
/// So many further ports are tried.
const FURTHER_PORTS: u16 = 99;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// The usual port, or the next free one.
    Usual,
    /// This one, or none.
    At(SocketAddr),
}

/// A listener, and whether it is not at the usual port.
pub(crate) fn bind(listen: Listen) -> io::Result<(TcpListener, bool)> {
    let first = match listen {
        Listen::At(address) => return TcpListener::bind(address).map(|it| (it, false)),
        Listen::Usual => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
    };
    let mut port = PORT;
    loop {
        match TcpListener::bind(SocketAddr::new(first.ip(), port)) {
            Ok(listener) => return Ok((listener, port != PORT)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if port >= PORT + FURTHER_PORTS {
                    return Err(error);
                }
                port += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
